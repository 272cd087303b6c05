// Package validate has the command for DeployItems in files: pergola items validate.
package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/text"
)

// callTimeout bounds the check of one item by its plugin.
const callTimeout = time.Minute

// validation validates the items in files.
type validation struct {
	files     []string
	recursive bool
	pluginDir string
	local     local.Flags
}

// NewCommand returns the command "validate" of a version of the program.
func NewCommand(version string) *cobra.Command {
	v := &validation{local: local.Flags{Version: version}}
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Find the problems of DeployItems in files, without a cluster",
		Long: `Find the problems of DeployItems in files, without a cluster.

Each problem has a line with the file, the item, the field and what is wrong. These are unknown and wrong fields of the
DeployItem, and the problems of spec.config found by the plugin for the type of the item. The plugins are started
locally, as a host does it, and need the capability "validate": see "pergola plugins list". They get no Target, so they
find less than a job.

Items without such a plugin are named as not checked. Other objects of the files are passed over.

The exit code is 0 without problems, 1 with problems, and 2 after an error, if a plugin could not check, or if none
serves the type of an item.`,
		Example: `  pergola items validate -f item.yaml --plugin-dir bin/plugins
  pergola items validate -R -f deploy/ --plugin-dir bin/plugins -o json
  kustomize build | pergola items validate -f - --plugin-dir bin/plugins`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags)
	v.local.AddTo(flags)
	flags.StringArrayVarP(&v.files, "filename", "f", nil,
		"file or directory with DeployItems, in YAML or JSON, or - for standard input; may be given several times")
	flags.BoolVarP(&v.recursive, "recursive", "R", false, "also read the directories below those of -f")
	flags.StringVar(&v.pluginDir, "plugin-dir", settings.PluginDir(), "directory with the plugins of the host")
	v.local.AddAttachTo(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := v.run(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		if report == nil {
			return err
		}
		text := func(bool) string { return report.text() }
		if err := errors.Join(cli.Print(cmd.OutOrStdout(), output.Value, report, text), err); err != nil {
			return err
		}
		return report.verdict()
	}
	return cmd
}

// run validates the items. The error is about items without an answer of their plugin; without a report, about files
// and plugins.
func (v *validation) run(ctx context.Context, stdin io.Reader, stderr io.Writer) (_ *report, err error) {
	items, found, err := readItems(v.files, v.recursive, stdin)
	if err != nil {
		return nil, err
	}
	configured, err := v.local.Settings()
	if err != nil {
		return nil, err
	}
	if _, missing := os.Stat(v.pluginDir); missing != nil && v.local.Attach == "" {
		return nil, fmt.Errorf("find the plugins: %w; name the plugin directory of the host with --plugin-dir", missing)
	}
	plugins, err := local.Start(ctx, v.local.Options(configured, v.local.Log(stderr), v.pluginDir))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()
	var errs []error
	for _, i := range items {
		errs = append(errs, found.add(ctx, i, plugins.Set.For(i.Spec.Type)))
	}
	for _, s := range plugins.Set.Status() {
		if s.Problem != nil && len(found.Unchecked) > 0 { // it may serve their types
			errs = append(errs, fmt.Errorf("plugin %s: %w", s.File, s.Problem))
		}
	}
	return found, errors.Join(errs...)
}

// add adds the problems of an item's provider configuration, as its plugin finds them; p is nil if there is none.
func (r *report) add(ctx context.Context, i item, p *plugin.Plugin) error {
	switch {
	case i.Spec.Type == "": // which is a problem of its own
		return nil
	case p == nil:
		r.unserved++
		r.unchecked(i, fmt.Sprintf("no plugin serves the type %q", i.Spec.Type))
		return nil
	case !p.Info().Capabilities.Validate:
		r.unchecked(i, fmt.Sprintf("the plugin %q cannot validate", p.Name()))
		return nil
	}
	found, err := p.Validate(ctx, plugin.Call{DeployItem: i.DeployItem, Deadline: time.Now().Add(callTimeout)})
	if err != nil {
		return fmt.Errorf("%s: %s: call the plugin %q: %w", i.file, i.shown, p.Name(), err)
	}
	for _, problem := range found.Problems {
		r.problem(i.file, i.shown, inConfig(problem))
	}
	if len(found.Problems) > 0 {
		return nil
	}
	var errs []error
	for _, reason := range found.Errors { // it could not check
		errs = append(errs, fmt.Errorf("%s: %s: plugin %q: %s",
			i.file, i.shown, p.Name(), text.Printable(local.ErrorText(reason))))
	}
	return errors.Join(errs...)
}
