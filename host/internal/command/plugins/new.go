package plugins

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
)

// pergolaModule is the Go module of Pergola, a requirement of each plugin.
const pergolaModule = "github.com/pergola-deploy/pergola"

// moduleTemplate has a template for each file of a pluginModule.
//
//go:embed all:template
var moduleTemplate embed.FS

// pluginModule is the Go module of a new plugin.
type pluginModule struct {
	// Name of the plugin, and Type of its deploy items.
	Name, Type string
	// APIVersion of the documents in the deploy items.
	APIVersion string
	// Module is the path of the Go module.
	Module string
	// Version of Pergola, and Replace, a checkout in place of this version; "" for none.
	Version, Replace string
}

func newNewCommand(version string) *cobra.Command {
	m, dir := &pluginModule{}, ""
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write the Go module of a new plugin",
		Long: `Write the Go module of a new plugin. It builds, passes its tests and runs at once.

NAME is the name of the plugin, a DNS label, and --type the type of its DeployItems. The module has the deployer and its
tests, an example DeployItem, a Makefile, and a Dockerfile to add the plugin to the image of a host.

The module requires the version of Pergola of this program. If this version is not a release, name a checkout of Pergola
with --replace.`,
		Example: `  pergola plugins new hello --type example.org/thing --module github.com/me/hello
  pergola plugins new hello --type example.org/thing --dir plugins/hello --replace ../pergola`,
		Args: cli.Arguments(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&m.Type, "type", "", "type of the DeployItems, such as example.org/thing")
	flags.StringVar(&m.Module, "module", "", "path of the Go module (default example.org/NAME)")
	flags.StringVar(&dir, "dir", "", "new or empty directory for the module (default NAME)")
	flags.StringVar(&m.Replace, "replace", "",
		"checkout of Pergola to build with; required if this program is not a release")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m.Name, dir = args[0], cmp.Or(dir, args[0])
		if err := m.complete(version); err != nil {
			return err
		}
		files, err := m.files()
		if err != nil {
			return err
		}
		if err := writeNewFiles(dir, files); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
		return cli.PrintText(cmd.OutOrStdout(), fmt.Sprintf("The plugin %s is in %s. There, make builds and tests it, "+
			"and make run calls it for item.yaml.\n", m.Name, dir))
	}
	return cmd
}

// complete checks the fields from the command line and sets the others for a version of this program.
func (m *pluginModule) complete(version string) error {
	var errs []error
	if problems := validation.IsDNS1123Label(m.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("NAME: expected a DNS label such as my-deployer, but found %q", m.Name))
	}
	group, _, found := strings.Cut(m.Type, "/")
	if problems := validation.IsQualifiedName(m.Type); !found || len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--type: expected the type of the DeployItems, "+
			"a domain of yours and a name such as example.org/thing, but found %q", m.Type))
	}
	m.APIVersion = group + "/v1alpha1"
	m.Module = cmp.Or(m.Module, "example.org/"+m.Name)
	if err := module.CheckImportPath(m.Module); err != nil {
		errs = append(errs, fmt.Errorf("--module: expected a path such as example.org/my-deployer: %w", err))
	}
	m.Version = version
	if released := semver.Canonical(version) == version && semver.Prerelease(version) == ""; !released {
		m.Version = "v0.0.0" // replaced by the checkout
		if m.Replace == "" {
			errs = append(errs, fmt.Errorf("--replace is missing: Go cannot download the version %s of this program, "+
				"because it is not a release; name a checkout of Pergola", version))
		}
	}
	if m.Replace != "" {
		replace, err := checkout(m.Replace)
		if err != nil {
			errs = append(errs, fmt.Errorf("--replace: %w", err))
		}
		m.Replace = modfile.AutoQuote(replace)
	}
	return errors.Join(errs...)
}

// checkout returns the absolute path of a checkout of Pergola.
func checkout(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the checkout of Pergola: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(path, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("expected a checkout of Pergola: %w", err)
	}
	if found := modfile.ModulePath(content); found != pergolaModule {
		return "", fmt.Errorf("expected a checkout of Pergola, but %s has the Go module %q", path, found)
	}
	return path, nil
}

// files returns the files of the module by name.
func (m *pluginModule) files() (map[string][]byte, error) {
	templates, err := template.ParseFS(moduleTemplate, "template/*", "template/.*")
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	files := map[string][]byte{}
	for _, t := range templates.Templates() {
		var out bytes.Buffer
		if err := t.Execute(&out, m); err != nil {
			return nil, fmt.Errorf("write the module: %w", err)
		}
		files[strings.TrimSuffix(t.Name(), ".tmpl")] = out.Bytes()
	}
	return files, nil
}

// writeNewFiles writes files into a new or empty directory.
func writeNewFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // sources, as other tools write them
		return fmt.Errorf("create the directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("expected nothing at %s, or an empty directory, but it has %s; "+
			"nothing is overwritten, so name another directory", dir, entries[0].Name())
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeNewFile(filepath.Join(dir, name), files[name]); err != nil {
			return fmt.Errorf("write the module: %w", err)
		}
	}
	return nil
}

// writeNewFile writes a new file; an existing file is an error.
func writeNewFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a source
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
