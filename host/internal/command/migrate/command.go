// Package migrate has the command for the way from Landscaper's deployers: it says what would become of the DeployItems
// of a cluster.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// NewCommand returns the command "migrate" of a version of the program.
func NewCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Prepare the way from Landscaper's deployers",
	}
	cmd.AddCommand(newCheckCommand(version))
	return cmd
}

// request is one check.
type request struct {
	cluster       usercluster.Flags
	local         local.Flags
	allNamespaces bool
	timeout       time.Duration
}

func newCheckCommand(version string) *cobra.Command {
	r := &request{
		cluster: usercluster.Flags{UserAgent: "pergola-migrate/" + version}, local: local.Flags{Version: version},
	}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Show what the first job of each DeployItem would do, without the job",
		Long: `Show what the first job of each DeployItem would do, without the job: for items of Landscaper's deployers.

Each item is compared with its target as by "pergola items diff", with your own rights, by the plugins and with the
configuration of the host to be. Nothing is written.

  AsItIs       nothing but labels and annotations is written
  NotCompared  the configuration is valid, but the plugin cannot compare, such as that of containers
  NotServed    no plugin serves the type, so its deployer of today stays
  Differs      as AsItIs, but something works differently from then on
  Changes      objects would change; "pergola items diff" shows them as a whole
  Fails        the job would fail: the item uses something unknown here, or fails today, too
  Busy         a job or a deletion is under way

The exit code is 0 if all items are AsItIs, NotCompared or NotServed, 1 if some are not, and 2 after an error.`,
		Example: `  pergola migrate check --all-namespaces --plugin-dir bin/plugins
  pergola migrate check -n shop --config host.yaml -o json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags, cli.FormatYAML)
	r.cluster.AddTo(flags)
	r.cluster.AddTargetsTo(flags)
	flags.BoolVarP(&r.allNamespaces, "all-namespaces", "A", false, "DeployItems of all namespaces")
	r.local.AddTo(flags)
	r.local.AddPluginDirTo(flags)
	flags.DurationVar(&r.timeout, "timeout", 10*time.Minute, "maximum time to wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		findings, err := r.run(cmd)
		if err != nil {
			return usercluster.WithCode(err)
		}
		text := func(bool) string { return table(findings) }
		if err := cli.Print(cmd.OutOrStdout(), output.Value, findings, text); err != nil {
			return usercluster.WithCode(err)
		}
		return exitCode(findings)
	}
	return cmd
}

// run checks within the timeout.
func (r *request) run(cmd *cobra.Command) (_ []finding, err error) {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), r.timeout,
		fmt.Errorf("the timeout of %s has passed; raise it with --timeout", r.timeout))
	defer cancel()
	cluster, err := r.cluster.Connect()
	if err != nil {
		return nil, err
	}
	options, err := r.local.HostOptions(cluster, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	var where []client.ListOption
	if !r.allNamespaces {
		where = append(where, client.InNamespace(cluster.Namespace))
	}
	list := &v1alpha1.DeployItemList{}
	if err := cluster.List(ctx, list, where...); err != nil {
		return nil, fmt.Errorf("list DeployItems: %w", err)
	}
	plugins, err := local.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()
	return (&checker{plugins: plugins, resolver: cluster.Resolver()}).check(ctx, list.Items)
}

// exitCode is that of the command.
func exitCode(findings []finding) error {
	for _, f := range findings {
		switch f.Verdict {
		case asItIs, notCompared, notServed:
		default:
			return &cli.ExitError{Code: cli.ExitNo}
		}
	}
	return nil
}

// table formats the findings, and counts them.
func table(findings []finding) string {
	if len(findings) == 0 {
		return "There are no DeployItems.\n"
	}
	rows := make([]terminal.Row, 0, len(findings))
	counts := map[verdict]int{}
	for _, f := range findings {
		counts[f.Verdict]++
		details := f.Details
		if more := len(details) - maxDetails; more > 0 {
			details = append(slices.Clone(details[:maxDetails]), fmt.Sprintf("and %d more", more))
		}
		rows = append(rows, terminal.Row{
			Cells: []string{f.DeployItem, inspect.ShortType(f.Type), string(f.Verdict)}, Note: strings.Join(details, "\n"),
		})
	}
	var summary []string
	for _, v := range []verdict{asItIs, notCompared, notServed, differs, changes, fails, busy} {
		if n := counts[v]; n > 0 {
			summary = append(summary, fmt.Sprintf("%d %s", n, v))
		}
	}
	return terminal.Table([]string{"DEPLOYITEM", "TYPE", "VERDICT"}, rows) + strings.Join(summary, ", ") + "\n"
}
