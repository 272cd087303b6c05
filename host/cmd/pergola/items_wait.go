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
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newItemsWaitCommand() *cobra.Command {
	chosen, until := &itemChoice{}, string(inspect.Succeeded)
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
	chosen.addTo(cmd.Flags())
	cmd.Flags().StringVar(&until, "for", until, "what to wait for: "+inspect.Goals)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		goal, err := inspect.ParseGoal(until)
		if err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		w, names, err := chosen.find(cmd, names, goal == inspect.Deleted)
		if err != nil {
			return err
		}
		for _, name := range names {
			w.items = append(w.items, &awaited{name: name, goal: goal})
		}
		return w.wait(cmd.Context())
	}
	return cmd
}

// waiter waits until each of some items has come to an end, good or bad.
type waiter struct {
	*userCluster

	stdout, stderr io.Writer
	timeout        time.Duration // for ever, if it is zero
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

// wait blocks until all items have come to an end. The error has the exit code.
func (w *waiter) wait(ctx context.Context) error {
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, w.timeout)
	defer cancel()
	options := []client.ListOption{client.InNamespace(w.namespace)}
	if len(w.items) == 1 {
		options = append(options, client.MatchingFields{"metadata.name": w.items[0].name})
	}
	err := w.follow(ctx, options, func(items []v1alpha1.DeployItem, event watch.EventType) (bool, error) {
		for _, a := range w.items {
			i := slices.IndexFunc(items, func(item v1alpha1.DeployItem) bool { return item.Name == a.name })
			switch {
			case i < 0 && event == "", i >= 0 && event == watch.Deleted:
				w.see(a, nil)
			case i >= 0:
				w.see(a, &items[i])
			}
		}
		return !slices.ContainsFunc(w.items, func(a *awaited) bool { return !a.decided() }), nil
	})
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return w.conclude()
}

// see judges an item, nil if it is gone, and prints how far it is if that has changed. One of the same name that was
// created since is another one.
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

// conclude prints which items are where they should be, and returns why the others are not, with the exit code.
func (w *waiter) conclude() error {
	code := 0
	var errs []error
	for _, a := range w.items {
		name := fmt.Sprintf("DeployItem %q", w.namespace+"/"+a.name)
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
	clusterFlags

	selector string
	timeout  time.Duration
}

func (c *itemChoice) addTo(flags *pflag.FlagSet) {
	c.clusterFlags.addTo(flags)
	flags.StringVarP(&c.selector, "selector", "l", "",
		"those with these labels instead of named ones, such as app=shop,tier!=test")
	flags.DurationVar(&c.timeout, "timeout", 10*time.Minute, "how long to wait at most; 0 for as long as it takes")
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

// find returns what waits for items, and the names of those that the arguments name or that have the labels, each once.
// That there is none is an error, unless it is allowed.
func (c *itemChoice) find(cmd *cobra.Command, args []string, allowNone bool) (w *waiter, names []string, err error) {
	w = &waiter{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), timeout: c.timeout}
	if w.userCluster, err = c.connect(); err != nil || len(args) > 0 {
		return w, slices.Compact(slices.Sorted(slices.Values(args))), err
	}
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, nil, fmt.Errorf("--selector: %w", err)
	}
	list := &v1alpha1.DeployItemList{}
	err = w.List(cmd.Context(), list, client.InNamespace(w.namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, nil, fmt.Errorf("list DeployItems: %w", err)
	}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	if len(names) == 0 && !allowNone {
		err = fmt.Errorf("no DeployItem in the namespace %q has the labels %q", w.namespace, c.selector)
	}
	return w, names, err
}
