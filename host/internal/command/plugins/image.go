package plugins

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/pluginimage"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

func newPullCommand() *cobra.Command {
	from, dir := pluginimage.Reference{}, ""
	cmd := &cobra.Command{
		Use:   "pull --to DIR NAME=IMAGE",
		Short: "Copy a plugin from an image into a plugin directory",
		Long: `Copy a plugin for this platform from an image into a plugin directory, as NAME.

The image needs a digest, or the program a checksum with --sha256. Credentials are those of docker login. A host pulls
plugins by itself if their entries in its configuration have an image.`,
		Example: `  pergola plugins pull --to /plugins thing=registry.example.org/team/thing@sha256:…`,
		Args:    cli.Arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, image, _ := strings.Cut(args[0], "=")
			from.Image, from.Path = image, cmp.Or(from.Path, "/"+name)
			program, sum, err := from.Pull(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = os.Remove(program) }() // it is a temporary file
			path, err := plugindir.Install(program, dir, name)
			if err != nil {
				return fmt.Errorf("install plugin %s into %s: %w", name, dir, err)
			}
			return cli.PrintText(cmd.OutOrStdout(), fmt.Sprintf("%s is installed as %s\nsha256: %s\n", image, path, sum))
		},
	}
	cmd.Flags().StringVar(&dir, "to", settings.PluginDir(), "plugin directory")
	cmd.Flags().StringVar(&from.Path, "path", "", "path of the program in the image (default /NAME)")
	cmd.Flags().StringVar(&from.SHA256, "sha256", "", "required checksum of the program")
	return cmd
}

func newPushCommand() *cobra.Command {
	var platform, name string
	cmd := &cobra.Command{
		Use:   "push FILE... IMAGE",
		Short: "Build and push an image of a plugin",
		Long: `Build and push an image of a plugin. Each FILE is the plugin for another platform, according to its header.
The output is the entry of the plugin in a HostConfiguration, and in the values of the chart. Credentials are those of
docker login.`,
		Example: `  pergola plugins push --name thing bin/thing-amd64 bin/thing-arm64 registry.example.org/team/thing:v1`,
		Args:    cli.Arguments(math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, image := args[:max(1, len(args)-1)], args[len(args)-1] // a single argument is a FILE, without IMAGE
			programs, err := readPrograms(files, platform)
			if err != nil {
				return cli.Failing(err)
			}
			name = cmp.Or(name, filepath.Base(files[0]))
			pushed, err := pluginimage.Push(cmd.Context(), image, "/"+name, programs)
			if err != nil {
				return err
			}
			return cli.PrintText(cmd.OutOrStdout(), entries(name, pushed, programs))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the plugin and of its file in the image (default: the name of FILE)")
	cmd.Flags().StringVar(&platform, "platform", "", "platform of FILE if its header has none, such as linux/amd64")
	return cmd
}

// entries returns the entries of a pushed image in a HostConfiguration and in the values of the chart.
func entries(name, image string, programs map[string][]byte) string {
	both := fmt.Sprintf("    path: /%s\n", name)
	for _, platform := range slices.Sorted(maps.Keys(programs)) {
		// An entry has one checksum; for several platforms the digest of the image has to do.
		comment := map[bool]string{true: "# "}[len(programs) > 1]
		both += fmt.Sprintf("    %ssha256: %x # %s\n", comment, sha256.Sum256(programs[platform]), platform)
	}
	tagged, digest, _ := strings.Cut(image, "@")
	repository, tag := tagged, ""
	if colon := strings.LastIndex(tagged, ":"); colon > strings.LastIndex(tagged, "/") {
		repository, tag = tagged[:colon], fmt.Sprintf("tag: %q, ", tagged[colon+1:])
	}
	return fmt.Sprintf("# HostConfiguration\nplugins:\n  %s:\n    image: %s\n%s"+
		"# values of the chart\nextraPlugins:\n  %s:\n    mode: pulled\n    image: {repository: %q, %sdigest: %q}\n%s",
		name, image, both, name, repository, tag, digest, both)
}

// readPrograms returns the programs in files by platform.
func readPrograms(files []string, platform string) (map[string][]byte, error) {
	programs := map[string][]byte{}
	for _, file := range files {
		program, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the plugin: %w", err)
		}
		on := cmp.Or(platform, pluginimage.PlatformOf(program))
		if on == "" || programs[on] != nil {
			return nil, fmt.Errorf("expected files for different platforms, but the platform of %s is %q; "+
				"name it with --platform if there is one file", file, on)
		}
		programs[on] = program
	}
	return programs, nil
}
