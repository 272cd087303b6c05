package items

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// selection selects items by names or labels, or all items.
type selection struct {
	usercluster.Flags

	selector           string
	all, allNamespaces bool
	timeout            time.Duration
}

func newSelection(version string) *selection {
	return &selection{Flags: usercluster.Flags{UserAgent: "pergola-items/" + version}}
}

// addTo adds the flags of a command that can wait.
func (s *selection) addTo(flags *pflag.FlagSet) {
	s.addItemsTo(flags)
	flags.DurationVar(&s.timeout, "timeout", 10*time.Minute, "maximum time to wait; 0 for no limit")
}

func (s *selection) addItemsTo(flags *pflag.FlagSet) {
	s.AddTo(flags)
	flags.StringVarP(&s.selector, "selector", "l", "",
		"DeployItems with these labels instead of names, such as app=shop,tier!=test")
}

// addAllTo adds the flags for all items to a command that changes nothing.
func (s *selection) addAllTo(flags *pflag.FlagSet) {
	flags.BoolVar(&s.all, "all", false, "all DeployItems of the namespace")
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "with --all or -l: DeployItems of all namespaces")
}

// check requires names or labels, or the flag for all items.
func (s *selection) check(_ *cobra.Command, names []string) error {
	switch {
	case s.all && (len(names) > 0 || s.selector != ""):
		return errors.New("expected --all, or names of DeployItems, or labels with -l, but found two of them")
	case s.allNamespaces && len(names) > 0:
		return errors.New("expected --all or labels with -A, but found names of DeployItems")
	case len(names) == 0 && s.selector == "" && !s.all:
		return errors.New("expected names of DeployItems, or labels with -l")
	case len(names) > 0 && s.selector != "":
		return fmt.Errorf("expected names of DeployItems or labels with -l, but found both %q and %q", names[0], s.selector)
	case slices.Contains(names, ""):
		return errors.New("the name of a DeployItem is empty")
	}
	return nil
}

// find returns a waiter and the keys of the items, each once. No item is an error, unless allowed.
func (s *selection) find(
	cmd *cobra.Command, args []string, allowNone bool,
) (w *waiter, keys []client.ObjectKey, err error) {
	w = &waiter{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), timeout: s.timeout, allNamespaces: s.allNamespaces}
	if w.Cluster, err = s.Connect(); err != nil {
		return w, nil, err
	}
	if len(args) > 0 {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(args))) {
			keys = append(keys, client.ObjectKey{Namespace: w.Namespace, Name: name})
		}
		return w, keys, nil
	}
	selector, err := labels.Parse(s.selector)
	if err != nil {
		return nil, nil, fmt.Errorf("--selector: %w", err)
	}
	list := &v1alpha1.DeployItemList{}
	options := append(w.where(), client.MatchingLabelsSelector{Selector: selector})
	if err = w.List(cmd.Context(), list, options...); err != nil {
		return nil, nil, fmt.Errorf("list DeployItems: %w", err)
	}
	for i := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	if len(keys) == 0 && !allowNone {
		err = fmt.Errorf("there is no DeployItem in %s%s", w.place(), withLabels(s.selector))
	}
	return w, keys, err
}

func withLabels(selector string) string {
	if selector == "" {
		return ""
	}
	return fmt.Sprintf(" with the labels %q", selector)
}
