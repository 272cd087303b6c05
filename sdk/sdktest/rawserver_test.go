package sdktest

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// rawServer speaks the protocol without the sdk, and so can break rules that the sdk keeps for its users. The zero value keeps
// them.
type rawServer struct {
	deployerv1.UnimplementedDeployerServiceServer

	// info changes the answer to GetInfo.
	info func(*deployerv1.GetInfoResponse)
	// messages replaces what a successful call says.
	messages func() []*deployerv1.PluginMessage
}

// dialRaw serves the server and connects to it.
func dialRaw(t testing.TB, s *rawServer) *Plugin {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	server := grpc.NewServer()
	deployerv1.RegisterDeployerServiceServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return dial(t, &sdk.Attachment{Network: "unix", Address: socket})
}

func (s *rawServer) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	out := &deployerv1.GetInfoResponse{Name: "raw", Version: "1", DeployItemTypes: []string{"example.org/raw"}}
	if s.info != nil {
		s.info(out)
	}
	return out, nil
}

func (s *rawServer) Reconcile(stream grpc.BidiStreamingServer[deployerv1.ReconcileRequest, deployerv1.ReconcileResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	for _, m := range s.answer(string(first.GetMessage().GetStart().GetDeployItem())) {
		if err := stream.Send(&deployerv1.ReconcileResponse{Message: m}); err != nil {
			return err
		}
	}
	return nil
}

func (s *rawServer) Delete(stream grpc.BidiStreamingServer[deployerv1.DeleteRequest, deployerv1.DeleteResponse]) error {
	return stream.Send(&deployerv1.DeleteResponse{Message: succeeded("")})
}

func (s *rawServer) answer(item string) []*deployerv1.PluginMessage {
	if !strings.Contains(item, `"config"`) {
		return []*deployerv1.PluginMessage{failed("spec.config is missing")}
	}
	if strings.Contains(item, unknownField) {
		return []*deployerv1.PluginMessage{failed("unknown field " + unknownField)}
	}
	if s.messages != nil {
		return s.messages()
	}
	return []*deployerv1.PluginMessage{succeeded("")}
}

func result(r *deployerv1.Result) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: r}}
}

func succeeded(exports string) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{
		Succeeded: &deployerv1.Succeeded{Exports: []byte(exports)},
	}})
}

func failed(message string) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{Errors: []*deployerv1.Error{{
		Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Reconcile", Reason: "Refused", Message: message,
	}}}}})
}

func saved(sequence uint64, document string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: []byte(document)},
	}}
}

func progress(step string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{Progress: &deployerv1.Progress{Step: step}}}
}
