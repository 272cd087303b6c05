package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

func newPluginsListCommand() *cobra.Command {
	host, local, pluginDir := &hostFinder{}, &localFlags{}, ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins of the host that runs here, or of a directory",
		Long: `List the plugins of the host that runs here, or of a directory.

Below a plugin with a problem is what is wrong with it. "-o wide" adds the whole checksum, the restarts by their
reasons, what the confinement consists of and the hooks; "-o json" has everything. Types after "hooks:" are those of
others' items, for which the plugin brings hooks.

With --plugin-dir nobody is asked: the command starts the plugins of the directory itself, as a host does, lists
them and ends them.`,
		Example: `  kubectl exec deploy/pergola -- pergola plugins list
  pergola plugins list --plugin-dir bin/plugins`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd.Flags(), formatWide)
	host.addTo(cmd.Flags())
	local.addTo(cmd.Flags())
	cmd.Flags().StringVar(&pluginDir, "plugin-dir", "", "directory with plugins that are started for this; without it the host is asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := listPlugins(cmd, host, local, pluginDir)
		if err != nil {
			return err
		}
		if output.format == formatJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return printText(cmd.OutOrStdout(), listText(list, output.format == formatWide))
	}
	return cmd
}

func listPlugins(cmd *cobra.Command, host *hostFinder, local *localFlags, pluginDir string) (*control.PluginList, error) {
	ctx := cmd.Context()
	if pluginDir != "" {
		settings, err := local.settings()
		if err != nil {
			return nil, err
		}
		options, err := pluginOptions(settings, local.log(cmd.ErrOrStderr()), 0)
		if err != nil {
			return nil, err
		}
		options.Dir = pluginDir
		return listLocal(ctx, host.runDir, options)
	}
	client, err := host.find(ctx)
	if none := (*noHostError)(nil); errors.As(err, &none) {
		return nil, fmt.Errorf("%w; or list the plugins of a directory without a host with --plugin-dir DIR", err)
	}
	if err != nil {
		return nil, err
	}
	return client.Plugins(ctx)
}

// listLocal starts plugins to list them.
func listLocal(ctx context.Context, runDir string, options plugin.Options) (list *control.PluginList, err error) {
	plugins, err := startPlugins(ctx, runDir, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.close()) }()
	if err := plugins.settled(ctx); err != nil {
		return nil, err
	}
	return control.ListOf(plugins.Details()), nil
}

// shortSum is how many digits of a checksum are shown.
const shortSum = 12

// listText is a list as a table.
func listText(list *control.PluginList, wide bool) string {
	rows := make([]row, 0, len(list.Plugins))
	for _, p := range list.Plugins {
		sum, restarts := p.SHA256, restartsByReason(p)
		confinement, _, _ := strings.Cut(p.Confinement, ":")
		if wide {
			confinement = p.Confinement
		} else {
			sum, restarts = sum[:min(len(sum), shortSum)], strconv.Itoa(p.Restarted())
		}
		r := row{cells: []string{
			p.File, p.Name, p.Version, typesAndHooks(p), strings.Join(p.Capabilities, ","),
			sum, p.State, restarts, number(p.PID), inMemory(p.MemoryBytes), confinement,
		}}
		if wide {
			r.cells = append(r.cells, strings.Join(p.HookTypes, ","))
		}
		if p.Problem != "" {
			r.notes = []string{p.Problem}
		}
		rows = append(rows, r)
	}
	header := []string{"FILE", "NAME", "VERSION", "TYPES", "CAPABILITIES", "SHA256", "STATE", "RESTARTS", "PID", "MEMORY", "CONFINEMENT"}
	if wide {
		header = append(header, "HOOKS")
	}
	text := table(header, rows)
	if list.Problem != "" {
		text += "incomplete: " + printable(list.Problem) + "\n"
	}
	return text
}

// typesAndHooks are the types that a plugin serves, and those of others that its hooks run for.
func typesAndHooks(p control.Plugin) string {
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

// number writes a number that is missing if it is zero.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// restartsByReason writes such as exit=2,wedged=1.
func restartsByReason(p control.Plugin) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(p.Restarts)) {
		parts = append(parts, reason+"="+strconv.Itoa(p.Restarts[reason]))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ",")
}
