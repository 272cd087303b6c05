package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// itemDiff compares what a job of an item would deploy with what is there.
type itemDiff struct {
	cluster         clusterFlags
	local           localFlags
	file, pluginDir string
	timeout         time.Duration
}

func newItemsDiffCommand() *cobra.Command {
	d := &itemDiff{}
	cmd := &cobra.Command{
		Use:   "diff (ITEM | -f FILE)",
		Short: "Show what a job of a DeployItem would change on its target, without changing it",
		Long: `Show what a job of a DeployItem would change on its target, without changing it.

ITEM is the name of a DeployItem in the cluster. With -f the DeployItem of a file is compared instead, as if it were
applied: what an item of that name has deployed so far is taken from the cluster. "-f -" reads standard input.

The item, its Target with its secret and its Context are read with your own rights. The plugin that serves the type of
the item is started here, as a host does it, and asked; use the plugins and the configuration of the host. It needs the
capability "diff", which "pergola plugins list" shows. HTTP hooks are not asked, so what they would change is not
shown. What Secrets hold is hidden by the plugin, if it was built with the sdk of Pergola.

Each change has a line of its own, and below it what differs. "-o yaml" has both states of each object as a whole.

  + create     - delete     ~ update     ± recreate: delete and create anew
  = keep: it stays, but is not managed any more     ! fail: the job would fail over it

The exit code is 0 if nothing would change, 1 if something would, and 2 after an error, or if the job would fail.`,
		Example: `  pergola items diff my-item -n my-namespace --plugin-dir bin/plugins
  pergola items diff -f item.yaml --plugin-dir bin/plugins
  pergola items diff my-item --attach unix:///tmp/hello/plugin.sock -o json`,
		Args: func(_ *cobra.Command, args []string) error { return oneOfItemAndFile(args, d.file) },
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	colour := addColour(flags)
	d.cluster.addTo(flags)
	d.cluster.addTargetsTo(flags)
	d.local.addTo(flags)
	flags.StringVarP(&d.file, "filename", "f", "", "file with the DeployItem, in YAML or JSON; - for standard input")
	flags.StringVar(&d.pluginDir, "plugin-dir", defaultPluginDir,
		"directory with the plugins of the host, which are started for this")
	d.local.addAttachTo(flags)
	flags.DurationVar(&d.timeout, "timeout", 5*time.Minute, "how long it may take")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := d.run(cmd, strings.Join(args, "")) // there is none with -f
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		err = printAs(out, output.value, report, func(bool) string { return report.text(paletteOf(colour.value, out)) })
		if err != nil {
			return err
		}
		return report.verdict()
	}
	return cmd
}

// oneOfItemAndFile wants one argument, or -f.
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

// run asks the plugin.
func (d *itemDiff) run(cmd *cobra.Command, name string) (_ *diffReport, err error) {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), d.timeout,
		fmt.Errorf("it has taken longer than %s, which --timeout allows", d.timeout))
	defer cancel()
	defer func() {
		if cause := context.Cause(ctx); errors.Is(err, context.DeadlineExceeded) && cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()
	cluster, err := d.cluster.connect()
	if err != nil {
		return nil, err
	}
	settings, err := d.local.settings()
	if err != nil {
		return nil, err
	}
	cluster.targetAccount = cmp.Or(cluster.targetAccount, settings.TargetServiceAccount)
	if _, missing := os.Stat(d.pluginDir); missing != nil && d.local.attach == "" {
		return nil, fmt.Errorf("find the plugins: %w; say with --plugin-dir where those of the host are", missing)
	}
	item, err := d.item(ctx, cluster, name, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	resolver := cluster.resolver()
	call, err := callFor(ctx, resolver, item)
	if err != nil {
		return nil, err
	}
	log := d.local.log(cmd.ErrOrStderr())
	options := d.local.options(settings, log, d.pluginDir)
	options.Installation = installationOf(target.NewInstallation(cluster), log)
	plugins, err := startPlugins(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.close()) }()
	p, err := theOneFor(plugins.set, item.Spec.Type)
	if err != nil {
		return nil, err
	}
	if err := call.ReadNamed(ctx, p.Info().Capabilities, resolver); err != nil {
		return nil, err
	}
	found, err := p.Diff(ctx, *call)
	if err != nil {
		return nil, fmt.Errorf("ask the plugin %q: %w", p.Name(), err)
	}
	for _, reason := range found.Errors {
		err = errors.Join(err, fmt.Errorf("plugin %q: %s", p.Name(), inspect.Printable(failureText(reason))))
	}
	return newDiffReport(item, found.Changes), err
}

// withRights adds to a refusal of the API server whose rights are meant.
func withRights(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; this is done with your own rights, not with those of the host", err)
	}
	return err
}

// item returns the item to compare, as it is or would be in the cluster.
func (d *itemDiff) item(
	ctx context.Context, cluster *userCluster, name string, stdin io.Reader,
) (*v1alpha1.DeployItem, error) {
	if d.file == "" {
		return cluster.stayingItem(ctx, name)
	}
	item, err := readItem(d.file, stdin)
	if err != nil {
		return nil, err
	}
	if d.cluster.namespace != "" && item.Namespace != "" && item.Namespace != d.cluster.namespace {
		return nil, fmt.Errorf("the DeployItem of the file is in the namespace %q, but -n says %q",
			item.Namespace, d.cluster.namespace)
	}
	cluster.namespace = cmp.Or(item.Namespace, cluster.namespace)
	existing, err := cluster.stayingItem(ctx, item.Name)
	if none := (*noItemError)(nil); errors.As(err, &none) {
		item.Status = v1alpha1.DeployItemStatus{}
		complete(item, cluster.namespace)
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

// stayingItem reads an item that is not being deleted.
func (c *userCluster) stayingItem(ctx context.Context, name string) (*v1alpha1.DeployItem, error) {
	item, err := c.deployItem(ctx, name)
	if err == nil && item.DeletionTimestamp != nil {
		return nil, fmt.Errorf("the DeployItem %q is being deleted, with what it has deployed; "+
			"no job will change anything else", c.namespace+"/"+name)
	}
	return item, err
}

// resolver resolves with the user's own rights, and by the rules of a host. A missing Context "default" is an empty
// one: Landscaper would create it, and a host without Landscaper does the same.
func (c *userCluster) resolver() *target.Resolver {
	return target.NewResolver(c, c, target.Options{
		DefaultContext: true, ServiceAccount: c.targetAccount,
		Tokens: c, Cluster: c.config,
	})
}

// callFor resolves what any plugin needs to know.
func callFor(ctx context.Context, resolver *target.Resolver, item *v1alpha1.DeployItem) (*plugin.Call, error) {
	resolved, targetErr := resolver.Target(ctx, item)
	itemContext, contextErr := resolver.Context(ctx, item)
	if err := errors.Join(targetErr, contextErr); err != nil {
		return nil, err
	}
	item = item.DeepCopy()
	item.Status.JobID = uuid.NewString() // that of the job which is not there yet
	return &plugin.Call{DeployItem: item, Target: resolved, Context: itemContext}, nil
}

// theOneFor returns the plugin that serves a type, if it can compare.
func theOneFor(plugins *plugin.Set, itemType v1alpha1.DeployItemType) (*plugin.Plugin, error) {
	if p := plugins.For(itemType); p != nil {
		if info := p.Info(); !info.Capabilities.Diff {
			return nil, fmt.Errorf("the plugin %q %s serves the type %q, but cannot tell what a job would change: "+
				"it lacks the capability diff", info.Name, info.Version, itemType)
		}
		return p, nil
	}
	errs := []error{fmt.Errorf("no plugin serves the type %q; "+
		"say with --plugin-dir or --attach where the plugins of the host are", itemType)}
	for _, s := range plugins.Status() {
		if s.Problem != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", s.File, s.Problem))
		}
	}
	return nil, errors.Join(errs...)
}
