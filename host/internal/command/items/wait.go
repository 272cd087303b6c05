package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newWaitCommand(version string) *cobra.Command {
	chosen, until := newSelection(version), string(inspect.Succeeded)
	cmd := &cobra.Command{
		Use:   "wait (ITEM... | -l SELECTOR | --all)",
		Short: "Wait until DeployItems are deployed, finished or deleted",
		Long: `Wait until DeployItems are deployed, finished or deleted.

  succeeded                the item is deployed in its current version; the default
  finished                 the job for its current version has ended, with any result
  deleted                  the item is gone
  condition=TYPE[=STATUS]  the condition has the status (default True)

Changes of the reasons for the wait are printed on standard error. Items created during the wait are not waited for.

The exit code is 0 if all items have reached the goal, 1 if one has failed, with the reason, 2 after an error, and 3
after the timeout.`,
		Example: `  pergola items wait my-item --timeout 5m
  pergola items wait -l app=shop --for deleted
  pergola items wait --all -A
  pergola items wait my-item --for condition=Drifted=False`,
		Args: chosen.check,
	}
	chosen.addTo(cmd.Flags())
	chosen.addAllTo(cmd.Flags())
	cmd.Flags().StringVar(&until, "for", until, "goal of the wait: "+inspect.Goals)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		goal, err := inspect.ParseGoal(until)
		if err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		w, keys, err := chosen.find(cmd, names, goal == inspect.Deleted)
		if err != nil {
			return err
		}
		for _, key := range keys {
			w.items = append(w.items, &awaited{key: key, goal: goal})
		}
		return w.wait(cmd.Context())
	}
	return cmd
}

// waiter waits until each item has reached its goal or failed.
type waiter struct {
	*usercluster.Cluster

	stdout, stderr io.Writer
	// timeout is 0 for none.
	timeout time.Duration
	// allNamespaces: items of other namespaces than that of the cluster may be among them.
	allNamespaces bool
	items         []*awaited
	// hosts are those at the begin of the wait, and then those after its timeout; nil if they may not be read.
	hosts *hostlease.Hosts
}

// where are the options for a list of the items.
func (w *waiter) where() []client.ListOption {
	if w.allNamespaces {
		return nil
	}
	return []client.ListOption{client.InNamespace(w.Namespace)}
}

// place names the namespaces of the items in a text.
func (w *waiter) place() string {
	if w.allNamespaces {
		return "any namespace"
	}
	return fmt.Sprintf("the namespace %q", w.Namespace)
}

// nameOf returns the name of an item in the output.
func (w *waiter) nameOf(key client.ObjectKey) string {
	if w.allNamespaces {
		return text.Printable(key.String())
	}
	return text.Printable(key.Name)
}

// awaited is an item with a goal.
type awaited struct {
	key  client.ObjectKey
	goal inspect.Goal
	// uid is empty before the first sight of the item.
	uid     types.UID
	verdict inspect.Verdict
	// last is the item as seen last; nil before that.
	last *v1alpha1.DeployItem
}

func (a *awaited) decided() bool { return a.verdict.Reached || a.verdict.Failed != "" }

// wait blocks until all items are decided or the time is over. The error has the exit code.
func (w *waiter) wait(ctx context.Context) error {
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, w.timeout)
	defer cancel()
	options := w.where()
	w.hosts = w.FindHosts(ctx)
	if len(w.items) == 1 {
		options = append(options, client.MatchingFields{"metadata.name": w.items[0].key.Name})
	}
	err := w.Follow(ctx, options, func(items []v1alpha1.DeployItem, event watch.EventType) (bool, error) {
		told := make(map[client.ObjectKey]*v1alpha1.DeployItem, len(items))
		for i := range items {
			told[client.ObjectKeyFromObject(&items[i])] = &items[i]
		}
		for _, a := range w.items {
			switch item, found := told[a.key]; {
			case !found && event == "", found && event == watch.Deleted:
				w.see(a, nil)
			case found:
				w.see(a, item)
			}
		}
		return !slices.ContainsFunc(w.items, func(a *awaited) bool { return !a.decided() }), nil
	})
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hostsTimeout)
		defer cancel()
		w.hosts = w.FindHosts(ctx)
	}
	return w.conclude()
}

// hostsTimeout bounds the read of the hosts after a wait.
const hostsTimeout = 5 * time.Second

// waitingFor returns the reason for the wait for an item, and that no host is running for it.
func (w *waiter) waitingFor(a *awaited) string {
	waiting := text.Printable(a.verdict.Waiting)
	if hostless := inspect.Hostless(a.last, w.hosts, time.Now()); hostless != "" {
		waiting += "; " + text.Printable(hostless)
	}
	return waiting
}

// see judges an item, nil after its deletion, and prints changes of its state. A new item of the same name is another
// item.
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
	a.last, a.verdict = item, a.goal.Judge(item, time.Now())
	if !seen && item == nil && a.verdict.Failed != "" {
		a.verdict.Failed = "there is no such DeployItem"
	}
	if waiting := a.verdict.Waiting; waiting != "" && waiting != before {
		line := text.Printable(waiting)
		if before == "" { // later ones may have started since
			line = w.waitingFor(a)
		}
		_ = cli.PrintText(w.stderr, w.nameOf(a.key)+": "+line+"\n") // the wait goes on without this line
	}
}

// conclude prints the items that reached their goals. The error names the others, with the exit code.
func (w *waiter) conclude() error {
	code := 0
	var errs []error
	for _, a := range w.items {
		name := fmt.Sprintf("DeployItem %q", a.key)
		switch {
		case a.verdict.Reached:
			if err := cli.PrintText(w.stdout, w.nameOf(a.key)+": "+string(a.goal)+"\n"); err != nil {
				return cli.Failing(err)
			}
		case a.verdict.Failed != "":
			code = cli.ExitNo
			errs = append(errs, fmt.Errorf("%s: %s", name, text.Printable(a.verdict.Failed)))
		default:
			if code == 0 {
				code = cli.ExitTimeout
			}
			errs = append(errs, fmt.Errorf("%s is not %s within --timeout; last: %s",
				name, a.goal, w.waitingFor(a)))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &cli.ExitError{Code: code, Err: errors.Join(errs...)}
}
