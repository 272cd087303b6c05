package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// listing is the list of items for a command line.
type listing struct {
	cluster       usercluster.Flags
	allNamespaces bool
	selector      string
	types, phases []string
	watch         bool
	stderr        io.Writer
}

func newListCommand(version string) *cobra.Command {
	l := &listing{cluster: usercluster.Flags{UserAgent: "pergola-items/" + version}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List DeployItems with their jobs and the reasons for waits and failures",
		Long: `List DeployItems with their jobs and the reasons for waits and failures.

A job is "set" before its pick-up, "queued" while it waits for a free worker, then "running" and "done". The last column
is the reason for the wait of a job, or the last error of a failed job; "-o wide" has the whole text.`,
		Example: `  pergola items list -n my-namespace
  pergola items list -A --phase Failed,DeleteFailed -o wide
  pergola items list --type helm -l app=shop --watch`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags, cli.FormatWide, cli.FormatYAML, cli.FormatName)
	l.cluster.AddTo(flags)
	flags.BoolVarP(&l.allNamespaces, "all-namespaces", "A", false, "list the DeployItems of all namespaces")
	flags.StringVarP(&l.selector, "selector", "l", "", "list DeployItems with these labels, such as app=shop,tier!=test")
	flags.StringSliceVar(&l.types, "type", nil,
		"list DeployItems of these types; a name without a slash is in Landscaper's own group, such as helm")
	flags.StringSliceVar(&l.phases, "phase", nil, "list DeployItems in these phases, such as Failed; none for no phase")
	flags.BoolVarP(&l.watch, "watch", "w", false, "print each change until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l.stderr = cmd.ErrOrStderr()
		return l.run(cmd.Context(), newItemPrinter(cmd.OutOrStdout(), output.Value, l.allNamespaces))
	}
	return cmd
}

func (l *listing) run(ctx context.Context, printer *itemPrinter) error {
	cluster, err := l.cluster.Connect()
	if err != nil {
		return err
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
	if !l.allNamespaces {
		options = append(options, client.InNamespace(cluster.Namespace))
	}
	listed := map[client.ObjectKey]bool{}
	err = cluster.Follow(ctx, options, func(items []v1alpha1.DeployItem, event watch.EventType) (bool, error) {
		items = slices.DeleteFunc(items, func(item v1alpha1.DeployItem) bool {
			key := client.ObjectKeyFromObject(&item)
			before := listed[key]
			listed[key] = event != watch.Deleted && l.wanted(&item)
			// An item that leaves the list is printed once more.
			return !listed[key] && (event == "" || !before)
		})
		if event == watch.Deleted && len(items) > 0 {
			items[0].Status = v1alpha1.DeployItemStatus{Phase: "(gone)"}
		}
		err := printer.print(items, event == "")
		if err == nil && event == "" {
			namespaces := []string{}
			if !l.allNamespaces {
				namespaces = append(namespaces, cluster.Namespace)
			}
			for i := range items {
				namespaces = append(namespaces, items[i].Namespace)
			}
			if hosts := cluster.FindHosts(ctx); hosts != nil {
				err = cli.PrintText(l.stderr, hosts.Unserved(namespaces))
			}
		}
		return !l.watch, err
	})
	if l.watch && errors.Is(ctx.Err(), context.Canceled) {
		return nil // interrupted by the user
	}
	return err
}

// wanted reports whether the flags select an item.
func (l *listing) wanted(item *v1alpha1.DeployItem) bool {
	phase := item.Status.Phase
	isType := func(text string) bool { return inspect.FullType(text) == item.Spec.Type }
	isPhase := func(text string) bool {
		return strings.EqualFold(text, string(phase)) || phase == "" && strings.EqualFold(text, "none")
	}
	return (len(l.types) == 0 || slices.ContainsFunc(l.types, isType)) &&
		(len(l.phases) == 0 || slices.ContainsFunc(l.phases, isPhase))
}

// itemPrinter prints items with the printers of kubectl.
type itemPrinter struct {
	printers.ResourcePrinter

	out    io.Writer
	format string
}

func newItemPrinter(out io.Writer, format string, withNamespace bool) *itemPrinter {
	p := &itemPrinter{out: out, format: format}
	switch format {
	case cli.FormatJSON:
		p.ResourcePrinter = &printers.JSONPrinter{}
	case cli.FormatYAML:
		p.ResourcePrinter = &printers.YAMLPrinter{}
	case cli.FormatName:
		p.ResourcePrinter = &printers.NamePrinter{}
	default:
		options := printers.PrintOptions{WithNamespace: withNamespace, Wide: format == cli.FormatWide}
		p.ResourcePrinter = printers.NewTablePrinter(options)
	}
	return p
}

// print prints items one by one, or as a document for a list. The header of a table comes before the first item.
func (p *itemPrinter) print(items []v1alpha1.DeployItem, isList bool) error {
	list := &v1alpha1.DeployItemList{Items: []v1alpha1.DeployItem{}}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeployItemList"))
	for i := range items {
		list.Items = append(list.Items, *inspect.WithoutSecrets(&items[i]))
	}
	isTable := p.format == cli.FormatText || p.format == cli.FormatWide
	switch {
	case isTable && len(items) > 0:
		return p.PrintObj(inspect.Table(time.Now(), p.format == cli.FormatWide, items...), p.out)
	case isTable && isList:
		return cli.PrintText(p.out, "There are no such DeployItems.\n")
	case isList && p.format != cli.FormatName:
		return p.PrintObj(list, p.out)
	}
	for i := range list.Items {
		if err := p.PrintObj(&list.Items[i], p.out); err != nil {
			return err
		}
	}
	return nil
}
