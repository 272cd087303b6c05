package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/follow"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// errTimeout is the cause of the end of a wait that has taken too long.
var errTimeout = errors.New("it has taken longer than --timeout allows")

// waiter waits until each of some items of a namespace has come to an end, good or bad.
type waiter struct {
	progress io.Writer
	// goal of items that a list finds; nil if those that are waited for are known.
	goal *inspect.Goal
	// items by their names.
	items  map[string]*awaited
	listed bool
}

// awaited is an item that is waited for.
type awaited struct {
	Name string `json:"name"`
	// Goal that is waited for.
	Goal string `json:"goal"`
	// Reached: the item has come to it. Failed says why it has not.
	Reached bool   `json:"reached"`
	Failed  string `json:"failed,omitempty"`

	goal inspect.Goal
	uid  types.UID // empty as long as it was not seen
	told string    // what was told about it last
}

func (a *awaited) decided() bool { return a.Reached || a.Failed != "" }

// await adds an item.
func (w *waiter) await(name string, goal inspect.Goal) {
	if w.items == nil {
		w.items = map[string]*awaited{}
	}
	w.items[name] = &awaited{Name: name, Goal: goal.String(), goal: goal}
}

// wait blocks until all items have come to an end; for ever, if the timeout is zero. The error is that of the API server, or errTimeout.
func (w *waiter) wait(ctx context.Context, cluster *userCluster, timeout time.Duration, options ...client.ListOption) error {
	if timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
		ctx = limited
	}
	options = append(options, client.InNamespace(cluster.namespace))
	if names := slices.Collect(maps.Keys(w.items)); w.goal == nil && len(names) == 1 {
		options = append(options, client.MatchingFields{"metadata.name": names[0]})
	}
	return follow.Items(ctx, cluster, w.see, options...)
}

// see takes a change of any item of the namespace.
func (w *waiter) see(change follow.Change) error {
	if change.Kind == follow.Complete {
		if !w.listed {
			w.listed = true
			w.missing()
		}
		return w.enough()
	}
	item := change.Item
	if w.goal != nil && !w.listed {
		w.await(item.Name, *w.goal)
	}
	a := w.items[item.Name]
	if a == nil || a.decided() {
		return nil
	}
	if a.uid == "" {
		a.uid = item.UID
	}
	if change.Kind == follow.Gone || a.uid != item.UID {
		item = nil
	}
	if err := w.judge(a, item); err != nil {
		return err
	}
	return w.enough()
}

// judge tells how far an item is, if that is not what was told last.
func (w *waiter) judge(a *awaited, item *v1alpha1.DeployItem) error {
	verdict := a.goal.Judge(item, time.Now())
	a.Reached, a.Failed = verdict.Reached, verdict.Failed
	text := verdict.Waiting
	switch {
	case a.Reached:
		text = "reached: " + a.Goal
	case a.Failed != "":
		text = "failed: " + a.Failed
	}
	if text == a.told {
		return nil
	}
	a.told = text
	return printText(w.progress, terminal.Printable(a.Name+": "+text)+"\n")
}

// missing decides on items that are not there at first.
func (w *waiter) missing() {
	for _, a := range w.items {
		if a.uid == "" {
			a.Reached = a.goal == inspect.Deleted
			if !a.Reached {
				a.Failed = "there is no such DeployItem"
			}
		}
	}
}

// enough ends the wait if there is nothing to wait for.
func (w *waiter) enough() error {
	if !w.listed {
		return nil
	}
	for _, a := range w.items {
		if !a.decided() {
			return nil
		}
	}
	return follow.ErrStop
}

// sorted are the items in order of their names.
func (w *waiter) sorted() []*awaited {
	items := make([]*awaited, 0, len(w.items))
	for _, name := range slices.Sorted(maps.Keys(w.items)) {
		items = append(items, w.items[name])
	}
	return items
}

// verdict is the exit code of a wait that has ended with err.
func (w *waiter) verdict(namespace string, err error) error {
	if err != nil && !errors.Is(err, errTimeout) {
		return asItems(err)
	}
	code := 0
	var errs []error
	for _, a := range w.sorted() {
		switch {
		case a.Failed != "":
			code = exitNo
			errs = append(errs, fmt.Errorf("DeployItem %q: %s", namespace+"/"+a.Name, terminal.Printable(a.Failed)))
		case !a.Reached:
			errs = append(errs, fmt.Errorf("DeployItem %q is not %s: %w; last: %s", namespace+"/"+a.Name, a.Goal, errTimeout, terminal.Printable(a.told)))
		}
	}
	if code == 0 && err != nil {
		code = exitTimeout
	}
	if len(errs) == 0 {
		return nil
	}
	return &exitError{code: code, err: errors.Join(errs...)}
}
