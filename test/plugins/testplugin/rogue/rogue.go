// Package rogue is a plugin that breaks every rule, for tests of what becomes of the host and of the plugins beside
// it. It is built without the sdk, which would not let it.
package rogue

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/proto/handshake"                      //nolint:depguard // it does without the sdk
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1" //nolint:depguard // it does without the sdk
)

// maxSend is more than the host takes.
const maxSend = 2 * handshake.MaxMessageBytes

// stdout and stderr are the plugin's own: go-plugin takes the variables for something else.
var stdout, stderr = os.Stdout, os.Stderr

// Serve is the main function of the plugin with this name, for items of the type test.pergola.dev/ with the name
// behind it. The mode says how it starts and what it says about itself; with another mode, such as none, it is
// well-behaved until it is called. What it does in a call is up to the item: the field "do" of its provider
// configuration.
func Serve(name, mode string) {
	switch mode {
	case "exits":
		os.Exit(3)
	case "garbage":
		write("Hello, I am no plugin.\n\xff\xfe\n")
		sleep()
	}
	r := &rogue{mode: mode}
	r.introduce(name)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {handshake.PluginName: r}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxSendMsgSize(maxSend))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// rogue serves the protocol without its rules.
type rogue struct {
	deployerv1.UnimplementedDeployerServiceServer
	goplugin.NetRPCUnsupportedPlugin
	goplugin.GRPCPlugin // the client's side, which is for hosts

	mode string
	info *deployerv1.GetInfoResponse
}

// introduce sets what the plugin says about itself. Some modes say what is not true.
func (r *rogue) introduce(name string) {
	itemType := "test.pergola.dev/" + name
	switch r.mode {
	case "path":
		name = "../" + name
	case "impostor":
		itemType = "test.pergola.dev/probe"
	}
	r.info = &deployerv1.GetInfoResponse{
		Name: name, Version: "v0", DeployItemTypes: []string{itemType},
		Capabilities: &deployerv1.Capabilities{Watch: r.mode == "alarms"},
	}
}

// GRPCServer registers the service.
func (r *rogue) GRPCServer(_ *goplugin.GRPCBroker, registrar *grpc.Server) error {
	deployerv1.RegisterDeployerServiceServer(registrar, r)
	return nil
}

// GetInfo says who the plugin is. The handshake is over by then, and one that babbles begins.
func (r *rogue) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	if r.mode == "babbles" {
		go babble()
	}
	return r.info, nil
}

// babble writes rubbish for as long as the plugin lives. Standard output is the host's as long as the handshake has
// not been made, and go-plugin's afterwards: this goes past it.
func babble() {
	for range time.Tick(100 * time.Millisecond) {
		write("1|1|unix|/nowhere|grpc\n\x00\x1b[2J\xff\n" + strings.Repeat("x", 1<<20) + "\n")
	}
}

// Watch sends wake-ups without end.
func (r *rogue) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	for {
		if err := stream.Send(&deployerv1.WatchResponse{Namespace: "default", Name: "nobody"}); err != nil {
			return err
		}
	}
}

// Reconcile does what the item asks for.
func (r *rogue) Reconcile(stream grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	var item struct {
		Spec struct{ Config struct{ Do string } }
	}
	if err := json.Unmarshal(first.GetStart().GetDeployItem(), &item); err != nil {
		return err
	}
	return call{stream}.do(item.Spec.Config.Do)
}

func write(text string) {
	if _, err := stdout.WriteString(text); err != nil {
		os.Exit(1) // nobody is there to read it
	}
}

// sleep blocks for longer than any test does, but not for ever, should one leave a process behind.
func sleep() { time.Sleep(5 * time.Minute) }
