package items

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/orphan"
	"github.com/pergola-deploy/pergola/host/internal/text"
)

func newOrphansCommand(version string) *cobra.Command {
	cluster := &usercluster.Flags{UserAgent: "pergola-items/" + version}
	var targets, installations []string
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List objects on targets without an existing DeployItem",
		Long: `List objects on targets without an existing DeployItem, such as after a restore: objects with the label
pergola.dev/deployitem of a missing item. Revisions of Helm releases are Secrets sh.helm.release.v1.NAME.vN; the
objects of a release have no label of their own. Objects of containers are listed also if a new item of the same name
has another UID. Nothing is changed.

Objects of all types and namespaces are read with your own rights. You need "list" for them and for DeployItems of all
namespaces, and "get" for the namespace kube-system of the cluster with the DeployItems. Objects with the mark of
another control plane are only counted, because its DeployItems are not known; if it is gone, name it with
--installation. Objects without a mark belong to this control plane.

The exit code is 0 if there are none, 1 if there are some, and 2 if a type could not be listed, with its name.`,
		Example: `  pergola items orphans
  pergola items orphans --target prod.kubeconfig --target test.kubeconfig -o json
  pergola items orphans --installation 5b1f6c0e-7c1d-4b0e-9d52-0d1f3f1a2b3c`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags, cli.FormatYAML)
	cluster.AddClusterTo(flags)
	flags.StringArrayVar(&targets, "target", nil, "kubeconfig of a target cluster, with its current context; "+
		"may be given several times (default: the cluster with the DeployItems)")
	flags.StringArrayVar(&installations, "installation", nil, "also list objects with the mark of this control plane: "+
		"the UID of its namespace kube-system; may be given several times")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := findOrphans(cmd.Context(), cluster, targets, installations)
		if err != nil {
			return err
		}
		text := func(bool) string { return orphansText(report, len(targets) > 1) }
		if err := cli.Print(cmd.OutOrStdout(), output.Value, report, text); err != nil {
			return err
		}
		return verdictOn(report)
	}
	return cmd
}

func findOrphans(
	ctx context.Context, cluster *usercluster.Flags, targets, installations []string,
) (*orphan.Report, error) {
	c, err := cluster.Connect()
	if err != nil {
		return nil, err
	}
	control := orphan.Cluster{Name: "the cluster with the DeployItems", Config: c.Config}
	at := []orphan.Cluster{control}
	if len(targets) > 0 {
		at = nil
	}
	for _, file := range targets {
		config, err := cli.FindCluster(cli.KubeconfigLoader(file, &clientcmd.ConfigOverrides{}))
		if err != nil {
			return nil, fmt.Errorf("--target %s: %w", file, err)
		}
		config.QPS, config.UserAgent, config.WarningHandler = -1, c.Config.UserAgent, rest.NoWarnings{}
		at = append(at, orphan.Cluster{Name: file, Config: config})
	}
	return orphan.Find(ctx, control, at, installations)
}

// orphansText formats a report as a table, without the errors of verdictOn.
func orphansText(report *orphan.Report, withTarget bool) string {
	lines := "There are no objects without their DeployItem.\n"
	if len(report.Objects) > 0 {
		header, from := []string{"TARGET", "DEPLOYITEM", "RESOURCE", "NAMESPACE", "NAME"}, 1
		if withTarget {
			from = 0
		}
		rows := make([]terminal.Row, 0, len(report.Objects))
		for _, o := range report.Objects {
			cells := []string{o.Target, o.DeployItem, o.Resource, o.Namespace, o.Name}
			rows = append(rows, terminal.Row{Cells: cells[from:]})
		}
		lines = terminal.Table(header[from:], rows)
	}
	for _, installation := range slices.Sorted(maps.Keys(report.OtherInstallations)) {
		lines += fmt.Sprintf("Objects of the installation %s, of which the DeployItems are not known: %d\n",
			text.Printable(installation), report.OtherInstallations[installation])
	}
	return lines
}

// verdictOn returns the exit code of a report, and the types that could not be listed. Missing rights share a line per
// target.
func verdictOn(report *orphan.Report) error {
	var errs []error
	forbidden := map[string][]string{}
	for _, u := range report.Unlisted {
		if u.Forbidden {
			forbidden[u.Target] = append(forbidden[u.Target], u.Resource)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %s could not be listed: %s", u.Target, u.Resource, text.Printable(u.Error)))
	}
	for _, target := range slices.Sorted(maps.Keys(forbidden)) {
		errs = append(errs, fmt.Errorf("%s: your rights do not allow to list %s",
			target, strings.Join(forbidden[target], ", ")))
	}
	switch {
	case len(errs) > 0:
		return errors.Join(errs...)
	case len(report.Objects) > 0:
		return &cli.ExitError{Code: cli.ExitNo}
	default:
		return nil
	}
}
