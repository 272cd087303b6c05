// Command node is what Pods need beside an API server: kube-controller-manager, kube-scheduler, kubelet and
// kube-proxy.
package main

import (
	"context"

	"github.com/spf13/cobra"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/pergola-deploy/pergola/test/cluster/components"
)

func main() {
	components.Main(map[string]func() int{
		"kube-controller-manager": components.Run(controllermanager.NewControllerManagerCommand),
		"kube-scheduler":          components.Run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet": components.Run(func() *cobra.Command {
			return kubelet.NewKubeletCommand(context.Background())
		}),
		"kube-proxy": components.Run(proxy.NewProxyCommand),
	})
}
