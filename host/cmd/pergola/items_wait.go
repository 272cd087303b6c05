package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newItemsWaitCommand() *cobra.Command {
	flags, chosen, until, timeout := &clusterFlags{}, &itemChoice{}, string(inspect.Succeeded), time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait (ITEM... | -l SELECTOR)",
		Short: "Wait until DeployItems are deployed, finished or deleted",
		Long: `Wait until DeployItems are deployed, finished or deleted.

  succeeded             the item is deployed as it is now; the default
  finished              nothing is left to be done for it, whether that went well or not
  deleted               it is gone
  condition=TYPE[=STATUS]  the condition has the status; True if it is not said

What is waited for is printed on standard error whenever it changes.

The exit code is 0 if all of them are there, 1 if one has failed, with the reason, 2 after an error, and 3 if the time
was over.`,
		Example: `  pergola items wait my-item --timeout 5m
  pergola items wait -l app=shop --for deleted
  pergola items wait my-item --for condition=Drifted=False`,
		Args: chosen.check,
	}
	flags.addTo(cmd.Flags())
	chosen.addTo(cmd.Flags())
	cmd.Flags().StringVar(&until, "for", until, "what to wait for: "+inspect.Goals)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait at most; 0 for as long as it takes")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		goal, err := inspect.ParseGoal(until)
		if err != nil {
			return failing(fmt.Errorf("--for: %w", err))
		}
		cluster, err := flags.connect()
		if err != nil {
			return asItems(err)
		}
		if names, err = chosen.names(cmd.Context(), cluster, names); err != nil {
			return asItems(err)
		}
		if len(names) == 0 && goal != inspect.Deleted {
			return failing(chosen.noneError(cluster))
		}
		w := &waiter{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
		for _, name := range names {
			w.items = append(w.items, &awaited{name: name, goal: goal})
		}
		return w.wait(cmd.Context(), cluster, timeout)
	}
	return cmd
}

// waiter waits until each of some items has come to an end, good or bad.
type waiter struct {
	stdout, stderr io.Writer
	items          []*awaited
}

// awaited is an item that is waited for.
type awaited struct {
	name    string
	goal    inspect.Goal
	uid     types.UID // empty as long as it was not seen
	verdict inspect.Verdict
}

func (a *awaited) decided() bool { return a.verdict.Reached || a.verdict.Failed != "" }

// wait blocks until all items have come to an end; for ever, if the timeout is zero. The error has the exit code.
func (w *waiter) wait(ctx context.Context, cluster *userCluster, timeout time.Duration) error {
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	defer cancel()
	options := []client.ListOption{client.InNamespace(cluster.namespace)}
	if len(w.items) == 1 {
		options = append(options, client.MatchingFields{"metadata.name": w.items[0].name})
	}
	err := cluster.follow(ctx, options, func(items []v1alpha1.DeployItem) (bool, error) {
		byName := map[string]*v1alpha1.DeployItem{}
		for i := range items {
			byName[items[i].Name] = &items[i]
		}
		for _, a := range w.items {
			w.see(a, byName[a.name])
		}
		return w.done(), nil
	}, func(item *v1alpha1.DeployItem, gone bool) (bool, error) {
		for _, a := range w.items {
			switch {
			case a.name == item.Name && gone:
				w.see(a, nil)
			case a.name == item.Name:
				w.see(a, item)
			}
		}
		return w.done(), nil
	})
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return asItems(err)
	}
	return w.conclude(cluster.namespace)
}

// see judges an item, nil if it is gone, and prints how far it is if that has changed. One of the same name that was created since
// is another one.
func (w *waiter) see(a *awaited, item *v1alpha1.DeployItem) {
	if a.decided() {
		return
	}
	before, seen := a.verdict.Waiting, a.uid != ""
	if item != nil && !seen {
		a.uid = item.UID
	}
	if item != nil && item.UID != a.uid {
		item = nil
	}
	a.verdict = a.goal.Judge(item, time.Now())
	if !seen && item == nil && a.verdict.Failed != "" {
		a.verdict.Failed = "there is no such DeployItem"
	}
	if waiting := a.verdict.Waiting; waiting != "" && waiting != before {
		_ = printText(w.stderr, inspect.Printable(a.name+": "+waiting)+"\n") // the wait does not depend on it
	}
}

func (w *waiter) done() bool {
	return !slices.ContainsFunc(w.items, func(a *awaited) bool { return !a.decided() })
}

// conclude prints which items are where they should be, and returns why the others are not, with the exit code.
func (w *waiter) conclude(namespace string) error {
	code := 0
	var errs []error
	for _, a := range w.items {
		name := fmt.Sprintf("DeployItem %q", namespace+"/"+a.name)
		switch {
		case a.verdict.Reached:
			if err := printText(w.stdout, inspect.Printable(a.name)+": "+string(a.goal)+"\n"); err != nil {
				return failing(err)
			}
		case a.verdict.Failed != "":
			code = exitNo
			errs = append(errs, fmt.Errorf("%s: %s", name, inspect.Printable(a.verdict.Failed)))
		default:
			if code == 0 {
				code = exitTimeout
			}
			errs = append(errs, fmt.Errorf("%s is not %s: it has taken longer than --timeout allows; last: %s",
				name, a.goal, inspect.Printable(a.verdict.Waiting)))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &exitError{code: code, err: errors.Join(errs...)}
}

// itemChoice says which items a command is about: those that its arguments name, or those with labels.
type itemChoice struct {
	selector string
}

func (c *itemChoice) addTo(flags *pflag.FlagSet) {
	flags.StringVarP(&c.selector, "selector", "l", "", "those with these labels instead of named ones, such as app=shop,tier!=test")
}

// check checks the arguments.
func (c *itemChoice) check(_ *cobra.Command, names []string) error {
	switch {
	case len(names) == 0 && c.selector == "":
		return errors.New("expected names of DeployItems, or labels with -l")
	case len(names) > 0 && c.selector != "":
		return fmt.Errorf("expected names of DeployItems or labels with -l, but found both %q and %q", names[0], c.selector)
	case slices.Contains(names, ""):
		return errors.New("the name of a DeployItem is empty")
	}
	return nil
}

// names returns the names of the items that the arguments name or that have the labels, each once.
func (c *itemChoice) names(ctx context.Context, cluster *userCluster, args []string) ([]string, error) {
	if len(args) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(args))), nil
	}
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	list := &v1alpha1.DeployItemList{}
	err = cluster.List(ctx, list, client.InNamespace(cluster.namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("list DeployItems: %w", err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

func (c *itemChoice) noneError(cluster *userCluster) error {
	return fmt.Errorf("no DeployItem in the namespace %q has the labels %q", cluster.namespace, c.selector)
}
