package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/fleet"
	"github.com/pergola-deploy/pergola/host/internal/podexec"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

// The pods of a host that was installed as it is documented.
const (
	usualNamespace = "pergola-system"
	usualSelector  = "app.kubernetes.io/name=pergola"
	usualContainer = "pergola"
	// componentLabel tells the Deployments of one installation apart.
	componentLabel = "app.kubernetes.io/component"
)

// replicaFinder finds the replicas of a host in a cluster.
type replicaFinder struct {
	kubeconfig, context string
	place               podexec.Place
}

func (f *replicaFinder) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster with the replicas; without it $KUBECONFIG, or ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig to use; without it the current one")
	flags.StringVarP(&f.place.Namespace, "namespace", "n", usualNamespace, "namespace of the replicas")
	flags.StringVarP(&f.place.Selector, "selector", "l", usualSelector, "labels of the pods of the replicas")
	flags.StringVar(&f.place.Container, "container", usualContainer, "container of the pods that the host runs in")
}

// ask has each replica run a command of this program.
func (f *replicaFinder) ask(cmd *cobra.Command, args ...string) ([]podexec.Answer, error) {
	config, err := findCluster(kubeconfigLoader(f.kubeconfig, &clientcmd.ConfigOverrides{CurrentContext: f.context}))
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.QPS = "pergola-replicas/"+version, -1
	return podexec.Ask(cmd.Context(), config, f.place, append([]string{ownName}, args...)...)
}

// listReplicas lists the plugins of all replicas.
func listReplicas(cmd *cobra.Command, finder *replicaFinder, as format) error {
	answers, err := finder.ask(cmd, "plugins", "list", "-o", "json")
	if err != nil {
		return err
	}
	replicas := make([]fleet.Replica, 0, len(answers))
	for _, answer := range answers {
		replicas = append(replicas, replicaOf(answer))
	}
	list := fleet.NewList(replicas)
	if err := printAs(cmd.OutOrStdout(), as, list, func(wide bool) string { return replicasText(list, wide) }); err != nil {
		return err
	}
	var problems []error
	if n := list.Unanswered(); n > 0 {
		problems = append(problems, fmt.Errorf("%d of %d replicas could not be asked", n, len(list.Replicas)))
	}
	if len(list.Differences) > 0 {
		problems = append(problems, errors.New("not all replicas have the same plugins"))
	}
	return errors.Join(problems...)
}

// replicaOf reads the answer of a replica.
func replicaOf(answer podexec.Answer) fleet.Replica {
	replica := fleet.Replica{Name: answer.Pod, Component: answer.Labels[componentLabel]}
	list := &control.PluginList{}
	err := answer.Err
	if err == nil {
		err = json.Unmarshal(answer.Stdout, list)
	}
	if err != nil {
		replica.Problem = err.Error()
		return replica
	}
	replica.Answered, replica.Problem, replica.Plugins = true, list.Problem, list.Plugins
	return replica
}

// replicasText is the list of all replicas as a table.
func replicasText(list *fleet.List, wide bool) string {
	var rows []terminal.Row
	for _, replica := range list.Replicas {
		for _, p := range replica.Plugins {
			r := rowOf(p, wide)
			r.Cells = append([]string{replica.Name}, r.Cells...)
			rows = append(rows, r)
		}
		switch {
		case !replica.Answered:
			rows = append(rows, terminal.Row{Cells: []string{replica.Name, "(not asked)"}, Notes: []string{replica.Problem}})
		case len(replica.Plugins) == 0:
			rows = append(rows, terminal.Row{Cells: []string{replica.Name, "(none)"}, Notes: []string{replica.Problem}})
		case replica.Problem != "":
			last := &rows[len(rows)-1]
			last.Notes = append(last.Notes, "incomplete: "+replica.Problem)
		}
	}
	text := terminal.Table(append([]string{"REPLICA"}, pluginColumns(wide)...), rows)
	for _, difference := range list.Differences {
		text += "differs: " + terminal.Printable(difference) + "\n"
	}
	return text
}
