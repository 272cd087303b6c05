package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/follow"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
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
The last column is what a job waits for, or the last error of one that failed; "-o wide" has it as a whole, and
"pergola items show" has everything else.

With --watch the list is drawn anew at each change on a terminal; elsewhere each change is a line, and with -o json a
document of its own.`,
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
	flags.BoolVarP(&l.watch, "watch", "w", false, "go on and show each change")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return asItems(l.run(cmd.Context(), cmd.OutOrStdout(), output.format))
	}
	return cmd
}

func (l *itemList) run(ctx context.Context, out io.Writer, as format) error {
	cluster, err := l.cluster.connect()
	if err != nil {
		return err
	}
	options, err := l.options(cluster)
	if err != nil {
		return err
	}
	columns := inspect.Columns{Namespace: l.allNamespaces, Wide: as == formatWide}
	if l.watch {
		w := &listWatch{out: out, format: as, columns: columns, wanted: l.wanted, redraw: terminal.Is(out), items: map[string]inspect.Summary{}}
		err := follow.Items(ctx, cluster, w.see, options...)
		if errors.Is(err, context.Canceled) {
			return nil // its user has seen enough
		}
		return err
	}
	list := &v1alpha1.DeployItemList{}
	if err := cluster.List(ctx, list, options...); err != nil {
		return fmt.Errorf("list DeployItems: %w", err)
	}
	items := []inspect.Summary{}
	for i := range list.Items {
		if s := inspect.Summarize(&list.Items[i]); l.wanted(s) {
			items = append(items, s)
		}
	}
	return printItems(out, as, columns, items)
}

func (l *itemList) options(cluster *userCluster) ([]client.ListOption, error) {
	var options []client.ListOption
	if !l.allNamespaces {
		options = append(options, client.InNamespace(cluster.namespace))
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return append(options, client.MatchingLabelsSelector{Selector: selector}), nil
}

// wanted tells whether an item is one of those that the flags say.
func (l *itemList) wanted(s inspect.Summary) bool {
	isType := func(text string) bool { return inspect.FullType(text) == s.Type }
	isPhase := func(text string) bool {
		return strings.EqualFold(text, string(s.Phase)) || s.Phase == "" && strings.EqualFold(text, "none")
	}
	return (len(l.types) == 0 || slices.ContainsFunc(l.types, isType)) && (len(l.phases) == 0 || slices.ContainsFunc(l.phases, isPhase))
}

// printItems prints a list.
func printItems(out io.Writer, as format, columns inspect.Columns, items []inspect.Summary) error {
	document := struct {
		Items []inspect.Summary `json:"items"`
	}{items}
	switch as {
	case formatJSON:
		return printJSON(out, document)
	case formatYAML:
		return printYAML(out, document)
	case formatName:
		text := ""
		for _, s := range items {
			text += objectName(s)
		}
		return printText(out, text)
	default:
		if len(items) == 0 {
			return printText(out, "There are no such DeployItems.\n")
		}
		return printText(out, columns.Table(items, time.Now()))
	}
}

// objectName is an item as kubectl takes it.
func objectName(s inspect.Summary) string {
	return "deployitem." + v1alpha1.GroupName + "/" + terminal.Printable(s.Name) + "\n"
}

// listWatch prints changes of a list.
type listWatch struct {
	out     io.Writer
	format  format
	columns inspect.Columns
	wanted  func(inspect.Summary) bool
	// redraw: the whole list is drawn at each change.
	redraw bool
	// items are those of the list, by namespace and name.
	items    map[string]inspect.Summary
	complete bool
	lines    terminal.Lines
}

// see prints a change.
func (w *listWatch) see(change follow.Change) error {
	if change.Kind == follow.Complete {
		first := !w.complete
		w.complete = true
		if first && w.inLines() {
			w.lines.Fit(w.columns.Header()...)
		}
		if first || w.redraws() {
			return w.printAll()
		}
		return nil
	}
	s := inspect.Summarize(change.Item)
	key := s.Namespace + "/" + s.Name
	_, before := w.items[key]
	listed := change.Kind != follow.Gone && w.wanted(s)
	if listed {
		w.items[key] = s
	} else {
		delete(w.items, key)
	}
	switch {
	case !w.complete || !listed && !before:
		return nil
	case w.redraws():
		return w.printAll()
	default:
		return w.printChange(change.Kind, s)
	}
}

func (w *listWatch) inLines() bool { return w.format == formatText || w.format == formatWide }

func (w *listWatch) redraws() bool { return w.redraw && w.inLines() }

func (w *listWatch) sorted() []inspect.Summary {
	items := make([]inspect.Summary, 0, len(w.items))
	for _, s := range w.items {
		items = append(items, s)
	}
	slices.SortFunc(items, func(a, b inspect.Summary) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return items
}

// printAll prints the whole list: anew on a terminal, and elsewhere as the first changes.
func (w *listWatch) printAll() error {
	if w.redraws() {
		const fromTheTop = "\x1b[H\x1b[2J"
		return printText(w.out, fromTheTop+w.columns.Table(w.sorted(), time.Now()))
	}
	if w.inLines() {
		for _, s := range w.sorted() {
			w.lines.Fit(w.columns.Cells(s, time.Now())...)
		}
		if err := printText(w.out, w.lines.Line(w.columns.Header()...)); err != nil {
			return err
		}
	}
	for _, s := range w.sorted() {
		if err := w.printChange(follow.Added, s); err != nil {
			return err
		}
	}
	return nil
}

// printChange prints a line or a document for a change.
func (w *listWatch) printChange(kind follow.Kind, s inspect.Summary) error {
	document := struct {
		Change follow.Kind     `json:"change"`
		Item   inspect.Summary `json:"item"`
	}{kind, s}
	switch w.format {
	case formatName:
		return printText(w.out, objectName(s))
	case formatJSON:
		line, err := json.Marshal(document)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return printText(w.out, string(line)+"\n")
	case formatYAML:
		if err := printText(w.out, "---\n"); err != nil {
			return err
		}
		return printYAML(w.out, document)
	default:
		if kind == follow.Gone {
			s.Phase, s.Message, s.Deleting = "(gone)", "", false
		}
		return printText(w.out, w.lines.Line(w.columns.Cells(s, time.Now())...))
	}
}
