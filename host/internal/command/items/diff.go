package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/diffreport"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// comparison compares the result of a job with the current objects.
type comparison struct {
	cluster usercluster.Flags
	local   local.Flags
	file    string
	timeout time.Duration
}

func newDiffCommand(version string) *cobra.Command {
	d := &comparison{
		cluster: usercluster.Flags{UserAgent: "pergola-items/" + version}, local: local.Flags{Version: version},
	}
	cmd := &cobra.Command{
		Use:   "diff (ITEM | -f FILE)",
		Short: "Show the changes of a job of a DeployItem on its target, without the job",
		Long: `Show the changes of a job of a DeployItem on its target, without the job.

ITEM is the name of a DeployItem in the cluster. With -f the DeployItem of a file is compared instead, as if it were
applied: the status of an existing item of this name is taken from the cluster. "-f -" reads standard input.

The item, its Target with its secret and its Context are read with your own rights. The plugin for the type of the item
is started and called locally, as a host does it; use the plugins and the configuration of the host. It needs the
capability "diff": see "pergola plugins list". HTTP hooks are not called, so their changes are not shown. Plugins built
with the sdk of Pergola hide the content of Secrets.

Each change has a line, with the differences below it. "-o yaml" has both states of each object as a whole.

  + create     - delete     ~ update     ± recreate: delete and create anew
  = keep: it stays, but is not managed any more     ! fail: the job would fail because of it

The exit code is 0 without changes, 1 with changes, and 2 after an error, or if the job would fail.`,
		Example: `  pergola items diff my-item -n my-namespace --plugin-dir bin/plugins
  pergola items diff -f item.yaml --plugin-dir bin/plugins
  pergola items diff my-item --attach unix:///tmp/hello/plugin.sock -o json`,
		Args: func(_ *cobra.Command, args []string) error { return oneOfItemAndFile(args, d.file) },
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags, cli.FormatYAML)
	colour := cli.AddColour(flags)
	d.cluster.AddTo(flags)
	d.cluster.AddTargetsTo(flags)
	d.local.AddTo(flags)
	flags.StringVarP(&d.file, "filename", "f", "", "file with the DeployItem, in YAML or JSON; - for standard input")
	d.local.AddPluginDirTo(flags)
	d.local.AddAttachTo(flags)
	flags.DurationVar(&d.timeout, "timeout", 5*time.Minute, "maximum time to wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := d.run(cmd, strings.Join(args, "")) // no argument with -f
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		text := func(bool) string { return report.Text(cli.PaletteFor(colour.Value, out)) }
		err = cli.Print(out, output.Value, report, text)
		if err != nil {
			return err
		}
		return report.Verdict()
	}
	return cmd
}

// oneOfItemAndFile requires one argument or -f.
func oneOfItemAndFile(args []string, file string) error {
	switch {
	case file == "" && len(args) != 1:
		return fmt.Errorf("expected the name of one DeployItem, or a file with -f, but found %d arguments", len(args))
	case file != "" && len(args) > 0:
		return fmt.Errorf("expected the name of a DeployItem or a file with -f, but found both %q and %q", args[0], file)
	case file == "" && args[0] == "":
		return errors.New("the name of the DeployItem is empty")
	default:
		return nil
	}
}

// run prepares the comparison within the timeout.
func (d *comparison) run(cmd *cobra.Command, name string) (_ *diffreport.Report, err error) {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), d.timeout,
		fmt.Errorf("the timeout of %s has passed; raise it with --timeout", d.timeout))
	defer cancel()
	defer func() {
		if cause := context.Cause(ctx); errors.Is(err, context.DeadlineExceeded) && cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()
	cluster, err := d.cluster.Connect()
	if err != nil {
		return nil, err
	}
	options, err := d.local.HostOptions(cluster, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	item, err := d.item(ctx, cluster, name, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	return compare(ctx, cluster.Resolver(), item, options)
}

// compare compares by a call of the plugin for an item.
func compare(
	ctx context.Context, resolver *target.Resolver, item *v1alpha1.DeployItem, options plugin.Options,
) (_ *diffreport.Report, err error) {
	plugins, err := local.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()
	changes, err := plugins.Diff(ctx, resolver, item)
	if err != nil {
		return nil, err
	}
	return diffreport.New(item, changes), nil
}

// item returns the item of the cluster, or the item of the file as applied to the cluster.
func (d *comparison) item(
	ctx context.Context, cluster *usercluster.Cluster, name string, stdin io.Reader,
) (*v1alpha1.DeployItem, error) {
	if d.file == "" {
		return cluster.StayingItem(ctx, name)
	}
	item, err := local.ReadItem(d.file, stdin)
	if err != nil {
		return nil, err
	}
	if d.cluster.Namespace != "" && item.Namespace != "" && item.Namespace != d.cluster.Namespace {
		return nil, fmt.Errorf("the DeployItem of the file is in the namespace %q, but -n says %q",
			item.Namespace, d.cluster.Namespace)
	}
	cluster.Namespace = cmp.Or(item.Namespace, cluster.Namespace)
	existing, err := cluster.StayingItem(ctx, item.Name)
	if none := (*usercluster.NoItemError)(nil); errors.As(err, &none) {
		item.Status = v1alpha1.DeployItemStatus{}
		local.Complete(item, cluster.Namespace)
		return item, nil
	}
	if err != nil {
		return nil, err
	}
	existing.Spec = item.Spec
	existing.Labels = labels.Merge(existing.Labels, item.Labels)
	existing.Annotations = labels.Merge(existing.Annotations, item.Annotations)
	return existing, nil
}
