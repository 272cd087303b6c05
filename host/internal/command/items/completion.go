package items

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// completionTimeout bounds the wait of a shell for the cluster.
const completionTimeout = 3 * time.Second

// words are the fixed completions by flag.
var words = map[string][]cobra.Completion{
	"phase": {
		"Init", "Progressing", "Completing", "Succeeded", "Failed", "InitDelete", "Deleting", "DeleteFailed", "none",
	},
	"for": {string(inspect.Succeeded), string(inspect.Finished), string(inspect.Deleted), "condition="},
}

// addCompletion completes the flags of a command, and names of DeployItems.
func addCompletion(cmd *cobra.Command, version string) {
	cluster := completer{version}
	fromCluster := map[string]cobra.CompletionFunc{
		"namespace": cluster.completeWith(&corev1.NamespaceList{}, client.Object.GetName),
		"type": cluster.completeWith(&v1alpha1.DeployItemList{}, func(object client.Object) string {
			item, _ := object.(*v1alpha1.DeployItem)
			return inspect.ShortType(item.Spec.Type)
		}),
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		complete := fromCluster[flag.Name]
		if all := words[flag.Name]; all != nil {
			complete = cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
		}
		if complete != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, complete) // fails for unknown flags only
		}
	})
	if strings.Contains(cmd.Use, "ITEM") {
		cmd.ValidArgsFunction = cluster.completeItems
	}
}

// completer completes words with objects of the cluster.
type completer struct{ version string }

// completeItems completes names of items, without the names in args.
func (c completer) completeItems(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasSuffix(cmd.Use, " ITEM") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp // the command takes one item
	}
	return c.completeWith(&v1alpha1.DeployItemList{}, func(object client.Object) string {
		item, _ := object.(*v1alpha1.DeployItem)
		if slices.Contains(args, item.Name) {
			return ""
		}
		description := inspect.ShortType(item.Spec.Type) + " " + string(item.Status.Phase)
		return cobra.CompletionWithDesc(item.Name, strings.TrimSpace(description))
	})(cmd, args, typed)
}

// completeWith completes with words about the objects of a list, in the namespace of the command's flags.
func (c completer) completeWith(list client.ObjectList, word func(client.Object) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		value := func(flag string) string { return cmd.Flag(flag).Value.String() }
		flags := &usercluster.Flags{
			UserAgent: "pergola-items/" + c.version, Kubeconfig: value("kubeconfig"), Context: value("context"),
			Namespace: value("namespace"),
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		cluster, err := flags.Connect()
		if err == nil {
			err = cluster.List(ctx, list, client.InNamespace(cluster.Namespace))
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // a shell has no place for an error
		}
		var all []cobra.Completion
		_ = meta.EachListItem(list, func(object runtime.Object) error { // never fails
			if o, ok := object.(client.Object); ok && word(o) != "" {
				all = append(all, word(o))
			}
			return nil
		})
		slices.Sort(all)
		return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
	}
}
