package main

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

	"github.com/pergola-deploy/pergola/host/internal/pluginimage"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

func newPluginsPullCommand() *cobra.Command {
	from, dir := pluginimage.Reference{}, ""
	cmd := &cobra.Command{
		Use:   "pull --to DIR NAME=IMAGE",
		Short: "Copy a plugin from an image into a plugin directory",
		Long: `Copy a plugin for this platform from an image into a plugin directory, as NAME.

The image has a digest, or --sha256 says which program is meant. Credentials are those of docker login. A host does the
same by itself for a plugin whose entry in its configuration has an image.`,
		Example: `  pergola plugins pull --to /plugins thing=registry.example.org/team/thing@sha256:…`,
		Args:    arguments(1),
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
			return printText(cmd.OutOrStdout(), fmt.Sprintf("%s is installed as %s\nsha256: %s\n", image, path, sum))
		},
	}
	cmd.Flags().StringVar(&dir, "to", defaultPluginDir, "plugin directory")
	cmd.Flags().StringVar(&from.Path, "path", "", "path of the program in the image; without it /NAME")
	cmd.Flags().StringVar(&from.SHA256, "sha256", "", "checksum that the program must have")
	return cmd
}

func newPluginsPushCommand() *cobra.Command {
	var platform, name string
	cmd := &cobra.Command{
		Use:   "push FILE... IMAGE",
		Short: "Make an image of a plugin, for hosts that take it from there, and push it",
		Long: `Make an image of a plugin, for hosts that take it from there, and push it. Each FILE is the plugin for another
platform, which its header tells. What is printed is for the configuration of a host. Credentials are those of docker
login.`,
		Example: `  pergola plugins push --name thing bin/thing-amd64 bin/thing-arm64 registry.example.org/team/thing:v1`,
		Args:    arguments(math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, image := args[:max(1, len(args)-1)], args[len(args)-1] // one alone is not the other
			programs, err := readPrograms(files, platform)
			if err != nil {
				return failing(err)
			}
			name = cmp.Or(name, filepath.Base(files[0]))
			pushed, err := pluginimage.Push(cmd.Context(), image, "/"+name, programs)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("plugins:\n  %s:\n    image: %s\n    path: /%s\n", name, pushed, name)
			for _, platform := range slices.Sorted(maps.Keys(programs)) { // for several the digest has to do
				comment := map[bool]string{true: "# "}[len(programs) > 1]
				text += fmt.Sprintf("    %ssha256: %x # %s\n", comment, sha256.Sum256(programs[platform]), platform)
			}
			return printText(cmd.OutOrStdout(), text)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the plugin, and of its file in the image; without it that of FILE")
	cmd.Flags().StringVar(&platform, "platform", "", "platform of FILE if its header does not tell, such as linux/amd64")
	return cmd
}

// readPrograms returns the programs in files by their platforms, of which each has one.
func readPrograms(files []string, platform string) (map[string][]byte, error) {
	programs := map[string][]byte{}
	for _, file := range files {
		program, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the plugin: %w", err)
		}
		on := cmp.Or(platform, pluginimage.PlatformOf(program))
		if on == "" || programs[on] != nil {
			return nil, fmt.Errorf("expected files for different platforms, but that of %s is %q; --platform says it for one "+
				"file alone", file, on)
		}
		programs[on] = program
	}
	return programs, nil
}
