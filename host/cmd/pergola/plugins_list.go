package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

func newPluginsListCommand() *cobra.Command {
	host, local, replicas, pluginDir := &hostFinder{}, &localFlags{}, &replicaFinder{}, ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins of the host that runs here, of all replicas, or of a directory",
		Long: `List the plugins of the host that runs here, of all replicas, or of a directory.

Below a plugin with a problem is what is wrong with it. "-o wide" adds the whole checksum, the restarts by their
reasons, what the confinement consists of and the hooks; "-o json" has everything. "-o yaml" has the lines of a
HostConfiguration by which a host runs these programs and no others. Types after "hooks:" are those of
others' items, for which the plugin brings hooks.

With --replicas each replica is asked, by this very command that is run in its pod: you need "list" for pods and
"create" for pods/exec, which is all rights of the host. Below the list is which replica has another program than the
others of its Deployment. The exit code is 1 if there is one, or if one could not be asked.

With --plugin-dir nobody is asked: the command starts the plugins of the directory itself, as a host does, lists
them and ends them. The exit code is 1 if one of them does not run.`,
		Example: `  kubectl exec deploy/pergola -- pergola plugins list
  pergola plugins list --replicas -n pergola-system
  pergola plugins list --plugin-dir bin/plugins`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd.Flags(), formatWide, formatYAML)
	host.addTo(cmd.Flags())
	local.addTo(cmd.Flags())
	ofReplicas := cmd.Flags().Bool("replicas", false, "ask all replicas that run in the cluster")
	replicas.addTo(cmd.Flags())
	cmd.Flags().StringVar(&pluginDir, "plugin-dir", "", "directory with plugins that are started for this; without it the host is asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *ofReplicas && pluginDir != "" {
			return failing(errors.New("expected one of --replicas and --plugin-dir, but found both"))
		}
		if *ofReplicas {
			return listReplicas(cmd, replicas, output.format)
		}
		list, err := listPlugins(cmd, host, local, pluginDir)
		if err != nil {
			return err
		}
		if output.format == formatYAML {
			err = printYAML(cmd.OutOrStdout(), verificationOf(list))
		} else {
			err = printAs(cmd.OutOrStdout(), output.format, list, func(wide bool) string { return listText(list, wide) })
		}
		if err == nil && pluginDir != "" {
			err = notRunning(list)
		}
		return err
	}
	return cmd
}

// printAs prints a list in a format: as a document, or as a text that may be wide.
func printAs(out io.Writer, as format, list any, text func(wide bool) string) error {
	switch as {
	case formatJSON:
		return printJSON(out, list)
	case formatYAML:
		return printYAML(out, list)
	default:
		return printText(out, text(as == formatWide))
	}
}

// notRunning names the plugins that were started and do not run; nil if all do.
func notRunning(list *control.PluginList) error {
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

func listPlugins(cmd *cobra.Command, host *hostFinder, local *localFlags, pluginDir string) (*control.PluginList, error) {
	ctx := cmd.Context()
	if pluginDir != "" {
		settings, err := local.settings()
		if err != nil {
			return nil, err
		}
		options := pluginOptions(settings, local.log(cmd.ErrOrStderr()), 0)
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
	rows := make([]terminal.Row, 0, len(list.Plugins))
	for _, p := range list.Plugins {
		rows = append(rows, rowOf(p, wide))
	}
	text := terminal.Table(pluginColumns(wide), rows)
	if list.Problem != "" {
		text += "incomplete: " + terminal.Printable(list.Problem) + "\n"
	}
	return text
}

// pluginColumns are those of rowOf.
func pluginColumns(wide bool) []string {
	header := []string{"FILE", "NAME", "VERSION", "TYPES", "CAPABILITIES", "SHA256", "STATE", "RESTARTS", "PID", "MEMORY", "CONFINEMENT"}
	if wide {
		header = append(header, "HOOKS")
	}
	return header
}

// rowOf is the row of a plugin in a table.
func rowOf(p control.Plugin, wide bool) terminal.Row {
	sum, restarts := p.SHA256, restartsByReason(p)
	confinement, _, _ := strings.Cut(p.Confinement, ":")
	if wide {
		confinement = p.Confinement
	} else {
		sum, restarts = sum[:min(len(sum), shortSum)], strconv.Itoa(p.Restarted())
	}
	r := terminal.Row{Cells: []string{
		p.File, p.Name, p.Version, typesAndHooks(p), strings.Join(p.Capabilities, ","),
		sum, p.State, restarts, number(p.PID), inMemory(p.MemoryBytes), confinement,
	}}
	if wide {
		r.Cells = append(r.Cells, strings.Join(p.HookTypes, ","))
	}
	if p.Problem != "" {
		r.Notes = []string{p.Problem}
	}
	return r
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

// inMemory writes an amount of memory.
func inMemory(bytes uint64) string {
	const unit = 1 << 20
	if bytes == 0 {
		return ""
	}
	return strconv.FormatUint((bytes+unit/2)/unit, 10) + "Mi"
}
