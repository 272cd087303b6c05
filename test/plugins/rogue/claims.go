package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1" //nolint:depguard // it does without the sdk
)

const (
	ownTypes = "test.pergola.dev/"
	// coveted are the types of plugins that have done nothing wrong.
	coveted     = "test.pergola.dev/probe"
	mostCoveted = "landscaper.gardener.cloud/mock"
)

// claims are what modes say about themselves that is not true, or that is no text.
func claims() map[string]func(*deployerv1.GetInfoResponse) {
	return map[string]func(*deployerv1.GetInfoResponse){
		"path":        func(i *deployerv1.GetInfoResponse) { i.Name = "../" + i.GetName() },
		"bad-name":    func(i *deployerv1.GetInfoResponse) { i.Name = badText },
		"bad-version": func(i *deployerv1.GetInfoResponse) { i.Version = badText },
		"bad-type":    func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = []string{badText} },
		"impostor":    func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = []string{coveted} },
		"latecomer":   func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = []string{mostCoveted} },
		"changeling": func(i *deployerv1.GetInfoResponse) {
			if lives(os.Args[1]) > 1 {
				i.DeployItemTypes = []string{mostCoveted}
			}
		},
	}
}

func newRogue() *rogue {
	info := &deployerv1.GetInfoResponse{
		Name: file(), Version: "v0", DeployItemTypes: []string{ownTypes + file()},
		Capabilities: &deployerv1.Capabilities{Watch: wakes()[mode()] != nil},
	}
	if claim, ok := claims()[mode()]; ok {
		claim(info)
	}
	return &rogue{info: info}
}

// GetInfo says what the mode says.
func (r *rogue) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	select {
	case <-served:
	default:
		close(served)
	}
	return r.info, nil
}

// wakes are what modes send as wake-ups.
func wakes() map[string]*deployerv1.WatchResponse {
	return map[string]*deployerv1.WatchResponse{
		"alarms":   {Namespace: "default", Name: "nobody"},
		"bad-wake": {Namespace: badText, Name: "\x00"},
	}
}

// Watch sends wake-ups without end.
func (r *rogue) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	for {
		if err := stream.Send(wakes()[mode()]); err != nil {
			return err
		}
	}
}

// lives counts how often the plugin was started.
func lives(dir string) int {
	path := filepath.Join(dir, "lives")
	before, err := os.ReadFile(path) //nolint:gosec // whoever starts the plugin knows why
	if err == nil || os.IsNotExist(err) {
		err = os.WriteFile(path, append(before, '.'), 0o600) //nolint:gosec // as above
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return len(before) + 1
}
