package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

func newItemsWaitCommand() *cobra.Command {
	cluster, chosen, until, timeout := &clusterFlags{}, &itemChoice{}, inspect.Succeeded.String(), time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait (ITEM... | -l SELECTOR)",
		Short: "Wait until DeployItems are deployed, finished or deleted",
		Long: `Wait until DeployItems are deployed, finished or deleted.

  succeeded             the item is deployed as it is now; the default
  finished              nothing is left to be done for it, whether that went well or not
  deleted               it is gone
  condition=TYPE[=STATUS]  the condition has the status; True if it is not said

An item that was changed and has no job for that yet is neither succeeded nor failed. What is waited for is told on
standard error whenever it changes. Nothing is polled: the API server says what happens.

The exit code is 0 if all of them are there, 1 if one has failed, with the reason, 2 after an error, and 3 if the time
was over.`,
		Example: `  pergola items wait my-item --timeout 5m
  pergola items wait -l app=shop --for deleted
  pergola items wait my-item --for condition=Drifted=False`,
		Args: chosen.check,
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	cluster.addTo(flags)
	chosen.addTo(flags)
	flags.StringVar(&until, "for", until, "what to wait for: "+inspect.Goals)
	flags.DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait at most; 0 for as long as it takes")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		goal, err := inspect.ParseGoal(until)
		if err != nil {
			return failing(fmt.Errorf("--for: %w", err))
		}
		c, err := cluster.connect()
		if err != nil {
			return asItems(err)
		}
		w := &waiter{progress: cmd.ErrOrStderr()}
		options, err := chosen.options()
		if err != nil {
			return failing(err)
		}
		for _, name := range names {
			w.await(name, goal)
		}
		if len(names) == 0 {
			w.goal = &goal
		}
		err = w.wait(cmd.Context(), c, timeout, options...)
		if printErr := printAwaited(cmd.OutOrStdout(), output.format, w); printErr != nil {
			return failing(printErr)
		}
		if err == nil && len(w.items) == 0 && goal != inspect.Deleted {
			return failing(fmt.Errorf("no DeployItem in the namespace %q has the labels %q", c.namespace, chosen.selector))
		}
		return w.verdict(c.namespace, err)
	}
	return cmd
}

// printAwaited prints what has become of items: as text, those that are where they should be. The others are errors.
func printAwaited(out io.Writer, as format, w *waiter) error {
	document := struct {
		Items []*awaited `json:"items"`
	}{w.sorted()}
	switch as {
	case formatJSON:
		return printJSON(out, document)
	case formatYAML:
		return printYAML(out, document)
	default:
		text := ""
		for _, a := range document.Items {
			if a.Reached {
				text += terminal.Printable(a.Name+": "+a.Goal) + "\n"
			}
		}
		return printText(out, text)
	}
}

// itemChoice says which items a command is about: those that its arguments name, or those with labels.
type itemChoice struct {
	selector string
}

func (c *itemChoice) addTo(flags interface {
	StringVarP(p *string, name, shorthand, value, usage string)
}) {
	flags.StringVarP(&c.selector, "selector", "l", "", "those with these labels instead of named ones, such as app=shop,tier!=test")
}

// check checks the arguments.
func (c *itemChoice) check(_ *cobra.Command, names []string) error {
	switch {
	case len(names) == 0 && c.selector == "":
		return errors.New("expected names of DeployItems, or labels with -l")
	case len(names) > 0 && c.selector != "":
		return fmt.Errorf("expected names of DeployItems or labels with -l, but found both %q and %q", names[0], c.selector)
	}
	for _, name := range names {
		if name == "" {
			return errors.New("the name of a DeployItem is empty")
		}
	}
	return nil
}

// options select the items with the labels.
func (c *itemChoice) options() ([]client.ListOption, error) {
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}, nil
}
