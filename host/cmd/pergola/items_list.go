package main

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
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// itemList lists items.
type itemList struct {
	cluster       clusterFlags
	allNamespaces bool
	selector      string
	types, phases []string
	watch         bool
}

func newItemsListCommand() *cobra.Command {
	l := &itemList{}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List DeployItems with their jobs, what they wait for and why they failed",
		Long: `List DeployItems with their jobs, what they wait for and why they failed.

A job is "set" when nobody has picked it up yet, "queued" when it waits for a free worker, then "running" and "done".
The last column is what a job waits for, or the last error of one that failed; "-o wide" has it as a whole.`,
		Example: `  pergola items list -n my-namespace
  pergola items list -A --phase Failed,DeleteFailed -o wide
  pergola items list --type helm -l app=shop --watch`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatWide, formatYAML, formatName)
	l.cluster.addTo(flags)
	flags.BoolVarP(&l.allNamespaces, "all-namespaces", "A", false, "list the DeployItems of all namespaces")
	flags.StringVarP(&l.selector, "selector", "l", "", "list those with these labels, such as app=shop,tier!=test")
	flags.StringSliceVar(&l.types, "type", nil, "list those of these types; without a slash that of Landscaper's own group is meant, such as helm")
	flags.StringSliceVar(&l.phases, "phase", nil, "list those in these phases, such as Failed; none for those without one")
	flags.BoolVarP(&l.watch, "watch", "w", false, "go on and print each change")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return asItems(l.run(cmd.Context(), newItemPrinter(cmd.OutOrStdout(), output.value, l.allNamespaces)))
	}
	return cmd
}

func (l *itemList) run(ctx context.Context, printer *itemPrinter) error {
	cluster, err := l.cluster.connect()
	if err != nil {
		return err
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
	if !l.allNamespaces {
		options = append(options, client.InNamespace(cluster.namespace))
	}
	listed := map[client.ObjectKey]bool{}
	err = cluster.follow(ctx, options, func(items []v1alpha1.DeployItem) (bool, error) {
		items = slices.DeleteFunc(items, func(item v1alpha1.DeployItem) bool { return !l.wanted(&item) })
		for i := range items {
			listed[client.ObjectKeyFromObject(&items[i])] = true
		}
		return !l.watch, printer.printList(items)
	}, func(item *v1alpha1.DeployItem, gone bool) (bool, error) {
		key := client.ObjectKeyFromObject(item)
		before := listed[key]
		listed[key] = !gone && l.wanted(item)
		if !listed[key] && !before { // one that leaves the list is told once more
			return false, nil
		}
		if gone {
			item.Status = v1alpha1.DeployItemStatus{Phase: "(gone)"}
		}
		return false, printer.print(*item)
	})
	if l.watch && errors.Is(ctx.Err(), context.Canceled) {
		return nil // its user has seen enough
	}
	return err
}

// wanted tells whether an item is one of those that the flags say.
func (l *itemList) wanted(item *v1alpha1.DeployItem) bool {
	phase := item.Status.Phase
	isType := func(text string) bool { return inspect.FullType(text) == item.Spec.Type }
	isPhase := func(text string) bool {
		return strings.EqualFold(text, string(phase)) || phase == "" && strings.EqualFold(text, "none")
	}
	return (len(l.types) == 0 || slices.ContainsFunc(l.types, isType)) && (len(l.phases) == 0 || slices.ContainsFunc(l.phases, isPhase))
}

// itemPrinter prints items with the printers of kubectl.
type itemPrinter struct {
	out     io.Writer
	wide    bool
	objects printers.ResourcePrinter // nil for tables
	tables  printers.ResourcePrinter
}

func newItemPrinter(out io.Writer, format string, withNamespace bool) *itemPrinter {
	p := &itemPrinter{out: out, wide: format == formatWide}
	switch format {
	case formatJSON:
		p.objects = &printers.JSONPrinter{}
	case formatYAML:
		p.objects = &printers.YAMLPrinter{}
	case formatName:
		p.objects = &printers.NamePrinter{}
	default:
		p.tables = printers.NewTablePrinter(printers.PrintOptions{WithNamespace: withNamespace, Wide: p.wide})
	}
	return p
}

// print prints items one by one, and the header of a table before the first.
func (p *itemPrinter) print(items ...v1alpha1.DeployItem) error {
	if p.objects == nil {
		return p.tables.PrintObj(inspect.Table(time.Now(), p.wide, items...), p.out)
	}
	for i := range items {
		if err := p.objects.PrintObj(inspect.WithoutSecrets(&items[i]), p.out); err != nil {
			return err
		}
	}
	return nil
}

// printList prints items, as one document if it is one.
func (p *itemPrinter) printList(items []v1alpha1.DeployItem) error {
	if _, names := p.objects.(*printers.NamePrinter); names || p.objects == nil && len(items) > 0 {
		return p.print(items...)
	}
	if p.objects == nil {
		return printText(p.out, "There are no such DeployItems.\n")
	}
	list := &v1alpha1.DeployItemList{Items: []v1alpha1.DeployItem{}}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeployItemList"))
	for i := range items {
		list.Items = append(list.Items, *inspect.WithoutSecrets(&items[i]))
	}
	return p.objects.PrintObj(list, p.out)
}
