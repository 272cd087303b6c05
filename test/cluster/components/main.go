// Command components is every Kubernetes program a test cluster runs, in one
// binary: etcd, the control plane, the node's kubelet and kube-proxy, and
// kubectl. They share most of their code, so one binary builds in a fraction
// of the time and takes a fraction of the space of seven.
//
// The name it is called by chooses the program, so that symbolic links to it
// stand in for the separate binaries. Called by any other name, the first
// argument chooses.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// Registrations the upstream main packages make.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// programs maps each program's name to its main function, which reads os.Args
// and returns the exit status.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          run(apiserver.NewAPIServerCommand),
	"kube-controller-manager": run(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 run(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kube-proxy":              run(proxy.NewProxyCommand),
	"kubectl":                 runKubectl,
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	program := programs[name]
	if program == nil {
		fmt.Fprintln(os.Stderr, "usage: components etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|kubectl [ARGUMENT...]")
		os.Exit(2)
	}
	os.Exit(program())
}

// run makes a program of a cobra command. The command is built only when the
// program is chosen, because building one registers flags and feature gates.
func run(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl differs from run in that kubectl reports errors its own way and
// wants its verbosity before it reads its flags.
func runKubectl() int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
