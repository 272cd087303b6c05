package main

import (
	"context"
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

// phases are those that an item can be in.
var phases = []v1alpha1.DeployItemPhase{
	v1alpha1.DeployItemPhaseInit, v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseCompleting, v1alpha1.DeployItemPhaseSucceeded,
	v1alpha1.DeployItemPhaseFailed, v1alpha1.DeployItemPhaseInitDelete, v1alpha1.DeployItemPhaseDeleting, v1alpha1.DeployItemPhaseDeleteFailed,
}

// addCompletion has shells complete the flags of a command by their names, and its arguments if they are DeployItems.
func addCompletion(cmd *cobra.Command) {
	goals := texts([]inspect.Goal{inspect.Succeeded, inspect.Finished, inspect.Deleted, "condition="})
	for name, complete := range map[string]cobra.CompletionFunc{
		"namespace": completeNamespaces,
		"type":      completeTypes,
		"phase":     cobra.FixedCompletions(append(texts(phases), "none"), cobra.ShellCompDirectiveNoFileComp),
		"for":       cobra.FixedCompletions(goals, cobra.ShellCompDirectiveNoFileComp),
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // it fails for a flag that is not there
		}
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if c, ok := flag.Value.(*choice); ok {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	if _, arguments, _ := strings.Cut(cmd.Use, " "); strings.Contains(arguments, "ITEM") {
		cmd.ValidArgsFunction = completeItems
	}
}

func texts[T ~string](values []T) []cobra.Completion {
	all := make([]cobra.Completion, 0, len(values))
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// completeItems completes names of items, but for those that are named already.
func completeItems(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasSuffix(cmd.Use, " ITEM") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp // it takes one
	}
	named := map[string]bool{}
	for _, arg := range args {
		named[arg] = true
	}
	return completeFrom(cmd, &v1alpha1.DeployItemList{}, func(list *v1alpha1.DeployItemList) []cobra.Completion {
		var names []cobra.Completion
		for i := range list.Items {
			if item := &list.Items[i]; !named[item.Name] {
				description := inspect.ShortType(item.Spec.Type) + " " + string(item.Status.Phase)
				names = append(names, cobra.CompletionWithDesc(item.Name, strings.TrimSpace(description)))
			}
		}
		return names
	})
}

func completeTypes(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFrom(cmd, &v1alpha1.DeployItemList{}, func(list *v1alpha1.DeployItemList) []cobra.Completion {
		var types []cobra.Completion
		seen := map[string]bool{}
		for _, item := range list.Items {
			if name := inspect.ShortType(item.Spec.Type); !seen[name] {
				seen[name] = true
				types = append(types, name)
			}
		}
		return types
	})
}

func completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFrom(cmd, &corev1.NamespaceList{}, func(list *corev1.NamespaceList) []cobra.Completion {
		var names []cobra.Completion
		for _, namespace := range list.Items {
			names = append(names, namespace.Name)
		}
		return names
	})
}

// completeFrom reads a list of objects, in the namespace that the flags of the command say, and makes completions of it; none if it cannot be
// read, because a shell has no place for an error.
func completeFrom[L client.ObjectList](cmd *cobra.Command, list L, names func(L) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	flags := &clusterFlags{}
	for name, into := range map[string]*string{"kubeconfig": &flags.kubeconfig, "context": &flags.context, "namespace": &flags.namespace} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*into = flag.Value.String()
		}
	}
	cluster, err := flags.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	if err := cluster.List(ctx, list, client.InNamespace(cluster.namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(list), cobra.ShellCompDirectiveNoFileComp
}
