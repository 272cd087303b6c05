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

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// selection selects items by names or labels.
type selection struct {
	clusterFlags

	selector string
	timeout  time.Duration
}

func newSelection(version string) *selection {
	return &selection{clusterFlags: clusterFlags{version: version}}
}

func (s *selection) addTo(flags *pflag.FlagSet) {
	s.clusterFlags.addTo(flags)
	flags.StringVarP(&s.selector, "selector", "l", "",
		"DeployItems with these labels instead of names, such as app=shop,tier!=test")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Minute, "maximum time to wait; 0 for no limit")
}

// check requires names or labels.
func (s *selection) check(_ *cobra.Command, names []string) error {
	switch {
	case len(names) == 0 && s.selector == "":
		return errors.New("expected names of DeployItems, or labels with -l")
	case len(names) > 0 && s.selector != "":
		return fmt.Errorf("expected names of DeployItems or labels with -l, but found both %q and %q", names[0], s.selector)
	case slices.Contains(names, ""):
		return errors.New("the name of a DeployItem is empty")
	}
	return nil
}

// find returns a waiter and the names of the items, each once. No item is an error, unless allowed.
func (s *selection) find(cmd *cobra.Command, args []string, allowNone bool) (w *waiter, names []string, err error) {
	w = &waiter{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), timeout: s.timeout}
	if w.userCluster, err = s.connect(); err != nil || len(args) > 0 {
		return w, slices.Compact(slices.Sorted(slices.Values(args))), err
	}
	selector, err := labels.Parse(s.selector)
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
		err = fmt.Errorf("no DeployItem in the namespace %q has the labels %q", w.namespace, s.selector)
	}
	return w, names, err
}
