// Command controlplane is what a control plane without controllers runs, and the client for it: etcd, kube-apiserver
// and kubectl.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/pergola-deploy/pergola/test/cluster/components"
)

func main() {
	components.Main(map[string]func() int{
		"etcd":           runEtcd,
		"kube-apiserver": components.Run(apiserver.NewAPIServerCommand),
		"kubectl":        runKubectl,
	})
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl differs from others in that kubectl reports errors its own way and wants its verbosity before it reads
// its flags.
func runKubectl() int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
