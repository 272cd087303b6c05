package plugins

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
)

func newListCommand(version string) *cobra.Command {
	flags, pluginDir := &local.Flags{Version: version}, ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins of a directory",
		Long: `List the plugins of a directory: start them as a host does, list them and stop them.

The problem of a plugin is printed below its line. "-o wide" adds the whole checksum, the parts of the confinement, the
hooks and the limits of calls; "-o json" has everything. "-o yaml" has the lines of a HostConfiguration for a host with
these programs and no others. Types after "hooks:" are types of other plugins with hooks by this plugin.

The exit code is 1 if a plugin does not run. A running host reports its plugins at /readyz?verbose, in its metrics and
on its status page.`,
		Example: `  pergola plugins list --plugin-dir bin/plugins`,
		Args:    cobra.NoArgs,
	}
	output := cli.AddOutput(cmd.Flags(), cli.FormatWide, cli.FormatYAML)
	flags.AddTo(cmd.Flags())
	cmd.Flags().StringVar(&pluginDir, "plugin-dir", settings.PluginDir(), "directory with the plugins")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := listPlugins(cmd, flags, pluginDir)
		if err != nil {
			return err
		}
		if output.Value == cli.FormatYAML {
			err = cli.PrintYAML(cmd.OutOrStdout(), verificationOf(list))
		} else {
			err = cli.Print(cmd.OutOrStdout(), output.Value, list, func(wide bool) string { return listText(list, wide) })
		}
		if err != nil {
			return err
		}
		return notRunning(list)
	}
	return cmd
}

// notRunning names the plugins that do not run; nil if all run.
func notRunning(list *statuspage.PluginList) error {
	var files []string
	for _, p := range list.Plugins {
		if p.State != string(plugin.Running) {
			files = append(files, p.File)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d plugins do not run: %s", len(files), len(list.Plugins), strings.Join(files, ", "))
}

func listPlugins(cmd *cobra.Command, flags *local.Flags, pluginDir string) (list *statuspage.PluginList, err error) {
	configured, err := flags.Settings()
	if err != nil {
		return nil, err
	}
	plugins, err := local.Start(cmd.Context(), flags.Options(configured, flags.Log(cmd.ErrOrStderr()), pluginDir))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()
	return statuspage.ListOf(plugins.Set.Details()), plugins.ReportPassedOver(cmd.ErrOrStderr())
}

// shortSum is the number of digits of a checksum in narrow lists.
const shortSum = 12

// listText formats a list as a table.
func listText(list *statuspage.PluginList, wide bool) string {
	header := []string{
		"FILE", "NAME", "VERSION", "TYPES", "CAPABILITIES", "SHA256", "STATE", "CONFINEMENT", "HOOKS", "LIMITS",
	}
	if !wide {
		header = header[:8]
	}
	rows := make([]terminal.Row, 0, len(list.Plugins))
	for _, p := range list.Plugins {
		cells := []string{
			p.File, p.Name, p.Version, typesAndHooks(p), strings.Join(p.Capabilities, ","), p.SHA256, p.State, p.Confinement,
			strings.Join(p.HookTypes, ","), p.DescribeLimits(),
		}
		if !wide {
			cells[5] = p.SHA256[:min(len(p.SHA256), shortSum)]
			cells[7], _, _ = strings.Cut(p.Confinement, ":")
		}
		rows = append(rows, terminal.Row{Cells: cells[:len(header)], Note: p.Problem})
	}
	return terminal.Table(header, rows)
}

// typesAndHooks lists the types of a plugin, and further types with hooks by the plugin.
func typesAndHooks(p statuspage.Plugin) string {
	var parts []string
	if len(p.Types) > 0 {
		parts = append(parts, strings.Join(p.Types, ","))
	}
	foreign := slices.DeleteFunc(slices.Clone(p.HookedTypes), func(t string) bool { return slices.Contains(p.Types, t) })
	if len(foreign) > 0 {
		parts = append(parts, "hooks: "+strings.Join(foreign, ","))
	}
	return strings.Join(parts, " ")
}

// programEntry is the entry of a plugin's program in a HostConfiguration.
type programEntry struct {
	File   string `json:"file,omitempty"`
	SHA256 string `json:"sha256"`
}

// verificationOf returns the part of a HostConfiguration for a host with the programs of a list and no others.
func verificationOf(list *statuspage.PluginList) any {
	entries := map[string]programEntry{}
	for _, p := range list.Plugins {
		entry, name := programEntry{SHA256: p.SHA256}, p.File
		if p.Name != "" && p.Name != p.File {
			entry.File, name = p.File, p.Name
		}
		if p.SHA256 != "" { // attached plugins have no file
			entries[name] = entry
		}
	}
	return map[string]any{"plugins": entries, "verification": config.VerificationRequired}
}
