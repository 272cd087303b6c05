// Package removal has the command of operators for the end of an installation: it removes the DeployItems of a cluster
// while a host still runs.
package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// NewCommand returns the command "remove" of a version of the program.
func NewCommand(version string) *cobra.Command {
	cluster := &usercluster.Flags{UserAgent: "pergola-remove/" + version}
	var namespaces []string
	var with bool
	r := &remover{pause: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "remove (--with-deployed | --leave-deployed)",
		Short: "Delete all DeployItems with or without their deployed objects, before the host is uninstalled",
		Long: `Delete all DeployItems of a cluster, with their deployed objects or without. The command waits until neither
they nor locks, finalizers and Pods of the host are left. Then nothing holds up the removal of host, namespaces and
definitions.

The host has to run until the end, and tools such as Flux and Argo CD must not create the items again. Beside a
Landscaper the command is refused, since its executions would. If the running hosts serve some namespaces only, name
those of the host to uninstall: others may be of another installation.

The rest is printed on standard error whenever it changes. The exit code is 0 if nothing is left, 2 after an error, and
3 after the timeout.`,
		Example: `  pergola remove --with-deployed
  pergola remove --leave-deployed --timeout 5m
  pergola remove --with-deployed --namespaces shop,tools`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			connected, err := cluster.Connect()
			if err != nil {
				return cli.Failing(cli.WithAdvice(err))
			}
			r.Client, r.namespaces, r.progress = connected, namespaces, cmd.ErrOrStderr()
			if err := r.run(cmd.Context()); err != nil {
				return cli.Failing(cli.WithAdvice(err))
			}
			return cli.PrintText(cmd.OutOrStdout(), "no DeployItem, lock, finalizer or Pod is left; uninstall the host now\n")
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&with, "with-deployed", false, "also delete the deployed objects")
	flags.BoolVar(&r.leave, "leave-deployed", false, "leave the deployed objects")
	cmd.MarkFlagsOneRequired("with-deployed", "leave-deployed")
	cmd.MarkFlagsMutuallyExclusive("with-deployed", "leave-deployed")
	flags.StringSliceVar(&namespaces, "namespaces", []string{""}, "only DeployItems of these namespaces (default: of all)")
	flags.DurationVar(&r.timeout, "timeout", 10*time.Minute, "maximum time to wait; 0 for no limit")
	cluster.AddClusterTo(flags)
	return cmd
}

// run deletes the items and waits until nothing is left. After the timeout the error names the rest, with the exit code
// ExitTimeout.
func (r *remover) run(ctx context.Context) error {
	installation := schema.GroupKind{Group: v1alpha1.GroupName, Kind: "Installation"}
	switch _, err := r.RESTMapper().RESTMapping(installation, v1alpha1.GroupVersion.Version); {
	case err == nil:
		return errors.New("remove DeployItems: expected a cluster without a Landscaper, but found its definition of " +
			"Installations, and its executions would create the items again; delete the Installations instead")
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("look for a Landscaper: %w", err)
	}
	if err := r.checkNamespaces(ctx); err != nil {
		return err
	}
	if err := r.deleteItems(ctx); err != nil {
		return err
	}
	left, err := r.await(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	missing := ""
	if hosts, err := hostlease.Find(ctx, r, time.Now()); err == nil && !hosts.Running {
		missing = "; no host has a Lease in this cluster: install it again"
	}
	return &cli.ExitError{Code: cli.ExitTimeout, Err: fmt.Errorf(
		"remove DeployItems: no host has ended this within %s: %s%s", r.timeout, strings.Join(left, "; "), missing)}
}

// checkNamespaces refuses to remove the items of all namespaces where hosts serve some only.
func (r *remover) checkNamespaces(ctx context.Context) error {
	if !slices.Contains(r.namespaces, metav1.NamespaceAll) {
		return nil
	}
	hosts, err := hostlease.Find(ctx, r, time.Now())
	if err != nil || len(hosts.Namespaces) == 0 {
		return err //nolint:wrapcheck // says what was read
	}
	return fmt.Errorf("remove DeployItems: expected --namespaces with those of the host to uninstall, since the running "+
		"hosts serve the namespaces %s alone, and DeployItems elsewhere may be of another installation",
		strings.Join(hosts.Namespaces, ","))
}
