package main

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

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// completionTimeout is how long a shell waits for a cluster before it has nothing to complete with.
const completionTimeout = 3 * time.Second

// words are what flags are completed with by their names, beside those that are a choice.
var words = map[string][]cobra.Completion{
	"phase": {
		"Init", "Progressing", "Completing", "Succeeded", "Failed", "InitDelete", "Deleting", "DeleteFailed", "none",
	},
	"for": {string(inspect.Succeeded), string(inspect.Finished), string(inspect.Deleted), "condition="},
}

// addCompletion has shells complete the flags of a command, and its arguments if they are DeployItems.
func addCompletion(cmd *cobra.Command) {
	fromCluster := map[string]cobra.CompletionFunc{
		"namespace": completeWith(&corev1.NamespaceList{}, client.Object.GetName),
		"type": completeWith(&v1alpha1.DeployItemList{}, func(object client.Object) string {
			item, _ := object.(*v1alpha1.DeployItem)
			return inspect.ShortType(item.Spec.Type)
		}),
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		complete, all := cobra.CompletionFunc(nil), words[flag.Name]
		if cmd.Flags().Lookup("kubeconfig") != nil {
			complete = fromCluster[flag.Name]
		}
		if c, ok := flag.Value.(*choice); ok {
			all = c.allowed
		}
		if all != nil {
			complete = cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
		}
		if complete != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, complete) // it fails for a flag that is not there
		}
	})
	if strings.Contains(cmd.Use, "ITEM") {
		cmd.ValidArgsFunction = completeItems
	}
}

// completeItems completes names of items, but for those that are named already.
func completeItems(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasSuffix(cmd.Use, " ITEM") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp // it takes one
	}
	return completeWith(&v1alpha1.DeployItemList{}, func(object client.Object) string {
		item, _ := object.(*v1alpha1.DeployItem)
		if slices.Contains(args, item.Name) {
			return ""
		}
		description := inspect.ShortType(item.Spec.Type) + " " + string(item.Status.Phase)
		return cobra.CompletionWithDesc(item.Name, strings.TrimSpace(description))
	})(cmd, args, typed)
}

// completeWith completes with words about the objects of a list, in the namespace that the flags of the command say.
// There are none if they cannot be read, because a shell has no place for an error.
func completeWith(list client.ObjectList, word func(client.Object) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		value := func(flag string) string { return cmd.Flag(flag).Value.String() }
		flags := &clusterFlags{kubeconfig: value("kubeconfig"), context: value("context"), namespace: value("namespace")}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		cluster, err := flags.connect()
		if err == nil {
			err = cluster.List(ctx, list, client.InNamespace(cluster.namespace))
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var all []cobra.Completion
		_ = meta.EachListItem(list, func(object runtime.Object) error { // it cannot fail
			if o, ok := object.(client.Object); ok && word(o) != "" {
				all = append(all, word(o))
			}
			return nil
		})
		slices.Sort(all)
		return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
	}
}
