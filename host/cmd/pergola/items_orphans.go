package main

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

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/orphan"
)

func newItemsOrphansCommand() *cobra.Command {
	cluster := &clusterFlags{}
	var targets, installations []string
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List objects on targets whose DeployItem does not exist",
		Long: `List objects on targets whose DeployItem does not exist, such as after a restore: objects with the label
pergola.dev/deployitem of an item that is not there. Revisions of Helm releases are Secrets sh.helm.release.v1.NAME.vN;
the objects of a release have no label of their own. What containers leave is listed also if an item of that name
exists and is another one by its UID. Nothing is changed.

The objects of all types and namespaces are looked at with your own rights, which need "list" for them, for DeployItems
of all namespaces, and "get" for the namespace kube-system of the cluster with the DeployItems. Objects that bear the
mark of another control plane are only counted, because its DeployItems are not known; name it by --installation if it
is gone. Objects without such a mark are taken for those of this one.

The exit code is 0 if there are none, 1 if there are some, and 2 if something could not be listed, which is named.`,
		Example: `  pergola items orphans
  pergola items orphans --target prod.kubeconfig --target test.kubeconfig -o json
  pergola items orphans --installation 5b1f6c0e-7c1d-4b0e-9d52-0d1f3f1a2b3c`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	cluster.addClusterTo(flags)
	flags.StringArrayVar(&targets, "target", nil, "kubeconfig of a cluster to look at, of its current context; "+
		"can be repeated, and without it that is the cluster with the DeployItems")
	flags.StringArrayVar(&installations, "installation", nil, "also look for objects with the mark of this control plane: "+
		"the UID of its namespace kube-system; can be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := findOrphans(cmd.Context(), cluster, targets, installations)
		if err != nil {
			return err
		}
		text := func(bool) string { return orphansText(report, len(targets) > 1) }
		if err := printAs(cmd.OutOrStdout(), output.value, report, text); err != nil {
			return err
		}
		return verdictOn(report)
	}
	return cmd
}

func findOrphans(
	ctx context.Context, cluster *clusterFlags, targets, installations []string,
) (*orphan.Report, error) {
	c, err := cluster.connect()
	if err != nil {
		return nil, err
	}
	control := orphan.Cluster{Name: "the cluster with the DeployItems", Config: c.config}
	at := []orphan.Cluster{control}
	if len(targets) > 0 {
		at = nil
	}
	for _, file := range targets {
		config, err := findCluster(kubeconfigLoader(file, &clientcmd.ConfigOverrides{}))
		if err != nil {
			return nil, fmt.Errorf("--target %s: %w", file, err)
		}
		config.QPS, config.UserAgent, config.WarningHandler = -1, c.config.UserAgent, rest.NoWarnings{}
		at = append(at, orphan.Cluster{Name: file, Config: config})
	}
	return orphan.Find(ctx, control, at, installations)
}

// orphansText is a report as a table. What could not be listed is an error, see verdictOn.
func orphansText(report *orphan.Report, withTarget bool) string {
	text := "There are no objects without their DeployItem.\n"
	if len(report.Objects) > 0 {
		header, from := []string{"TARGET", "DEPLOYITEM", "RESOURCE", "NAMESPACE", "NAME"}, 1
		if withTarget {
			from = 0
		}
		rows := make([]inspect.Row, 0, len(report.Objects))
		for _, o := range report.Objects {
			cells := []string{o.Target, o.DeployItem, o.Resource, o.Namespace, o.Name}
			rows = append(rows, inspect.Row{Cells: cells[from:]})
		}
		text = inspect.TextTable(header[from:], rows)
	}
	for _, installation := range slices.Sorted(maps.Keys(report.OtherInstallations)) {
		text += fmt.Sprintf("Objects of the installation %s, of which the DeployItems are not known: %d\n",
			inspect.Printable(installation), report.OtherInstallations[installation])
	}
	return text
}

// verdictOn is the exit code of a report. What could not be listed for want of rights is named in one line per target.
func verdictOn(report *orphan.Report) error {
	var errs []error
	forbidden := map[string][]string{}
	for _, u := range report.Unlisted {
		if u.Forbidden {
			forbidden[u.Target] = append(forbidden[u.Target], u.Resource)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %s could not be listed: %s", u.Target, u.Resource, inspect.Printable(u.Error)))
	}
	for _, target := range slices.Sorted(maps.Keys(forbidden)) {
		errs = append(errs, fmt.Errorf("%s: your rights do not allow to list %s",
			target, strings.Join(forbidden[target], ", ")))
	}
	switch {
	case len(errs) > 0:
		return errors.Join(errs...)
	case len(report.Objects) > 0:
		return &exitError{code: exitNo}
	default:
		return nil
	}
}
