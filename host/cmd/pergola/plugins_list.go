package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
)

func newPluginsListCommand() *cobra.Command {
	local, pluginDir := &localFlags{}, ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins of a directory",
		Long: `List the plugins of a directory: starts them as a host does, lists them and ends them.

Below a plugin with a problem is what is wrong with it. "-o wide" adds the whole checksum, what the confinement
consists of and the hooks; "-o json" has everything. "-o yaml" has the lines of a HostConfiguration by which a host
runs these programs and no others. Types after "hooks:" are those of others' items, for which the plugin brings hooks.

The exit code is 1 if a plugin does not run. What the plugins of a running host do is told at its /readyz?verbose, by
its metrics and on its status page.`,
		Example: `  pergola plugins list --plugin-dir bin/plugins`,
		Args:    cobra.NoArgs,
	}
	output := addOutput(cmd.Flags(), formatWide, formatYAML)
	local.addTo(cmd.Flags())
	cmd.Flags().StringVar(&pluginDir, "plugin-dir", defaultPluginDir, "directory with the plugins")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := listPlugins(cmd, local, pluginDir)
		if err != nil {
			return err
		}
		if output.value == formatYAML {
			err = printYAML(cmd.OutOrStdout(), verificationOf(list))
		} else {
			err = printAs(cmd.OutOrStdout(), output.value, list, func(wide bool) string { return listText(list, wide) })
		}
		if err != nil {
			return err
		}
		return notRunning(list)
	}
	return cmd
}

// notRunning names the plugins that were started and do not run; nil if all do.
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

func listPlugins(cmd *cobra.Command, local *localFlags, pluginDir string) (list *statuspage.PluginList, err error) {
	settings, err := local.settings()
	if err != nil {
		return nil, err
	}
	plugins, err := startPlugins(cmd.Context(), local.options(settings, local.log(cmd.ErrOrStderr()), pluginDir))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.close()) }()
	return statuspage.ListOf(plugins.set.Details()), plugins.tellPassedOver(cmd.ErrOrStderr())
}

// shortSum is how many digits of a checksum are shown.
const shortSum = 12

// listText is a list as a table.
func listText(list *statuspage.PluginList, wide bool) string {
	header := []string{"FILE", "NAME", "VERSION", "TYPES", "CAPABILITIES", "SHA256", "STATE", "CONFINEMENT", "HOOKS"}
	if !wide {
		header = header[:8]
	}
	rows := make([]inspect.Row, 0, len(list.Plugins))
	for _, p := range list.Plugins {
		cells := []string{
			p.File, p.Name, p.Version, typesAndHooks(p), strings.Join(p.Capabilities, ","), p.SHA256, p.State, p.Confinement,
			strings.Join(p.HookTypes, ","),
		}
		if !wide {
			cells[5] = p.SHA256[:min(len(p.SHA256), shortSum)]
			cells[7], _, _ = strings.Cut(p.Confinement, ":")
		}
		rows = append(rows, inspect.Row{Cells: cells[:len(header)], Note: p.Problem})
	}
	return inspect.TextTable(header, rows)
}

// typesAndHooks are the types that a plugin serves, and those of others that its hooks run for.
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
