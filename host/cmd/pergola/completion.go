package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// completionTimeout is how long a shell waits for a cluster before it has nothing to complete with.
const completionTimeout = 3 * time.Second

// words are what flags are completed with by their names, beside those that are a choice.
var words = map[string][]cobra.Completion{
	"phase": {"Init", "Progressing", "Completing", "Succeeded", "Failed", "InitDelete", "Deleting", "DeleteFailed", "none"},
	"for":   {string(inspect.Succeeded), string(inspect.Finished), string(inspect.Deleted), "condition="},
}

// addCompletion has shells complete the flags of a command, and its arguments if they are DeployItems.
func addCompletion(cmd *cobra.Command) {
	fromCluster := map[string]cobra.CompletionFunc{"namespace": completeNamespaces, "type": completeTypes}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		complete, all := fromCluster[flag.Name], words[flag.Name]
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
func completeItems(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasSuffix(cmd.Use, " ITEM") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp // it takes one
	}
	items := &v1alpha1.DeployItemList{}
	return completeFrom(cmd, items, func(add func(string)) {
		for i := range items.Items {
			if item := &items.Items[i]; !slices.Contains(args, item.Name) {
				description := inspect.ShortType(item.Spec.Type) + " " + string(item.Status.Phase)
				add(cobra.CompletionWithDesc(item.Name, strings.TrimSpace(description)))
			}
		}
	})
}

func completeTypes(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	items := &v1alpha1.DeployItemList{}
	return completeFrom(cmd, items, func(add func(string)) {
		for _, item := range items.Items {
			add(inspect.ShortType(item.Spec.Type))
		}
	})
}

func completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	namespaces := &corev1.NamespaceList{}
	return completeFrom(cmd, namespaces, func(add func(string)) {
		for _, namespace := range namespaces.Items {
			add(namespace.Name)
		}
	})
}

// completeFrom reads a list of objects, in the namespace that the flags of the command say, and returns the names in
// it; none if it cannot be read, because a shell has no place for an error.
func completeFrom(
	cmd *cobra.Command, list client.ObjectList, names func(add func(string)),
) ([]cobra.Completion, cobra.ShellCompDirective) {
	value := func(flag string) string { return cmd.Flag(flag).Value.String() }
	flags := &clusterFlags{kubeconfig: value("kubeconfig"), context: value("context"), namespace: value("namespace")}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	cluster, err := flags.connect()
	if err == nil {
		err = cluster.List(ctx, list, client.InNamespace(cluster.namespace))
	}
	var all []cobra.Completion
	if err == nil {
		names(func(name string) { all = append(all, name) })
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}
