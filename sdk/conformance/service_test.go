package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/yaml"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

const (
	rawType    = "example.org/raw"
	goodChild  = `{"apiVersion":"v1","kind":"ConfigMap"}`
	goodStatus = `{"apiVersion":"example.org/v1","kind":"RawStatus"}`
)

// service is a deployer without the sdk, and so can break rules that the sdk keeps for its users. The zero value has
// all capabilities and keeps the rules.
type service struct {
	deployerv1.UnimplementedDeployerServiceServer

	// info changes the answer to GetInfo.
	info func(*deployerv1.GetInfoResponse)
	// configure replaces the check of a configuration document.
	configure func() (*deployerv1.ConfigureResponse, error)
	// outcomes replaces the outcomes of the hooks.
	outcomes func() []*deployerv1.HookOutcome
	// renders replaces the desired objects.
	renders func() (*deployerv1.RenderResponse, error)
	// diffs replaces what a job would change.
	diffs func(start *deployerv1.Start) *deployerv1.DiffResponse
	// holds replaces what is kept.
	holds *deployerv1.HoldingsResponse
	// withoutStart replaces the refusal of a call that begins with something else.
	withoutStart func() (*deployerv1.Result, error)
	// invalidItem replaces the refusal of an item that is no JSON.
	invalidItem func() (*deployerv1.Result, error)
	// hears sees each message of the host but the first acknowledgement. An error ends the call.
	hears func(*deployerv1.HostMessage) error
	// hearsIn is part of the names of those items for which it waits until it has heard something that it does not
	// take.
	hearsIn string
	// refuses replaces the check of the provider configuration.
	refuses func(c *conversation) *deployerv1.Result
	// deploys replaces what is done for a valid item.
	deploys func(c *conversation) error
	// deletes replaces what is done for an item that is deleted.
	deletes func(c *conversation) error

	cancelled atomic.Int32
}

func (s *service) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	out := &deployerv1.GetInfoResponse{
		Name: "raw", Version: "1", DeployItemTypes: []string{rawType},
		Capabilities: &deployerv1.Capabilities{
			Abort: true, Render: true, Diff: true, Configure: true, SeparateDocuments: true,
			ContextCredentials: true, HostCluster: true, Collect: true,
			HookTypes: []string{"End", "Start"},
		},
		ConfigurationSchema:          []byte(`{"type":"object"}`),
		ProviderConfigurationSchemas: map[string][]byte{rawType: []byte(`{"type":"object"}`)},
	}
	if s.info != nil {
		s.info(out)
	}
	return out, nil
}

func (s *service) Configure(_ context.Context, in *deployerv1.ConfigureRequest) (*deployerv1.ConfigureResponse, error) {
	if s.configure != nil {
		return s.configure()
	}
	out := &deployerv1.ConfigureResponse{}
	if err := yaml.UnmarshalStrict(in.GetDocument(), &struct {
		Volume int `json:"volume"`
	}{}); err != nil {
		out.Problems = append(out.Problems, &deployerv1.Problem{Message: err.Error()})
	}
	return out, nil
}

func (s *service) Render(_ context.Context, in *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	if in.GetStart() == nil {
		return nil, status.Error(codes.InvalidArgument, "no deploy item")
	}
	if s.renders != nil {
		return s.renders()
	}
	return rendered(&deployerv1.Child{Name: "a", Object: []byte(goodChild)}), nil
}

func (s *service) Diff(_ context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
	if in.GetStart() == nil {
		return nil, status.Error(codes.InvalidArgument, "no deploy item")
	}
	if s.diffs != nil {
		return s.diffs(in.GetStart()), nil
	}
	return differing(&deployerv1.Change{Object: "ConfigMap a", Action: "create", After: []byte(goodChild)}), nil
}

func (s *service) RunHooks(context.Context, *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	if s.outcomes != nil {
		return &deployerv1.RunHooksResponse{Outcomes: s.outcomes()}, nil
	}
	noOpinion := &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	return &deployerv1.RunHooksResponse{Outcomes: []*deployerv1.HookOutcome{noOpinion}}, nil
}

func (s *service) Holdings(context.Context, *deployerv1.HoldingsRequest) (*deployerv1.HoldingsResponse, error) {
	if s.holds != nil {
		return s.holds, nil
	}
	return holding(&deployerv1.Holding{Namespace: "default", Name: "a", Uid: "1", JobId: "b"}), nil
}

func holding(held ...*deployerv1.Holding) *deployerv1.HoldingsResponse {
	return &deployerv1.HoldingsResponse{
		Outcome: &deployerv1.HoldingsResponse_Held{Held: &deployerv1.HoldingList{Holdings: held}},
	}
}

// serverStream is the stream of an operation, whichever it is.
type serverStream = grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]

func (s *service) Reconcile(stream serverStream) error { return s.operate(stream, s.reconcile) }

func (s *service) Delete(stream serverStream) error { return s.operate(stream, s.delete) }

func (s *service) Abort(stream serverStream) error {
	return s.operate(stream, func(c *conversation) error { return c.send(succeeded("")) })
}

// conversation is one call.
type conversation struct {
	service *service
	stream  serverStream
	item    item
	start   *deployerv1.Start
	heard   chan *deployerv1.HostMessage
	broken  chan error // takes what ends the call
}

type item struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Config json.RawMessage `json:"config"`
	} `json:"spec"`
	Status struct {
		ProviderStatus json.RawMessage `json:"providerStatus"`
	} `json:"status"`
}

func (c *conversation) send(m *deployerv1.PluginMessage) error { return c.stream.Send(m) }

func (s *service) operate(stream serverStream, work func(*conversation) error) error {
	c := &conversation{service: s, stream: stream}
	first, err := c.stream.Recv()
	if c.stream.Context().Err() != nil {
		s.cancelled.Add(1)
	}
	if err != nil || first.GetStart() == nil {
		if s.withoutStart == nil {
			return status.Error(codes.InvalidArgument, "the first message must be start")
		}
		return c.answer(s.withoutStart())
	}
	if err := json.Unmarshal(first.GetStart().GetDeployItem(), &c.item); err != nil {
		if s.invalidItem == nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		return c.answer(s.invalidItem())
	}
	c.start = first.GetStart()
	c.item.Spec.Config, c.item.Status.ProviderStatus = c.start.GetProviderConfiguration(), c.start.GetProviderStatus()
	if s.hears != nil {
		if err := s.hears(first); err != nil {
			return err
		}
	}
	c.heard, c.broken = make(chan *deployerv1.HostMessage, 16), make(chan error, 1)
	go c.listen() // ends with the stream
	return work(c)
}

// answer answers what is not a proper call.
func (c *conversation) answer(r *deployerv1.Result, err error) error {
	if err != nil || r == nil {
		return err
	}
	return c.send(result(r))
}

func (c *conversation) listen() {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return
		}
		resolved := max(m.GetResolvedTarget().GetSequence(), m.GetResolvedRegistryCredentials().GetSequence())
		if m.GetAcknowledgement().GetSequence() == 1 || resolved == 1 || resolved == 2 {
			c.heard <- m
			continue
		}
		if c.service.hears != nil {
			if err := c.service.hears(m); err != nil {
				c.broken <- err
				return
			}
		}
	}
}

// dies waits for what the host has to say on its own, where it does, and returns the error with which the service
// answers it.
func (c *conversation) dies() error {
	if c.service.hearsIn == "" || !strings.Contains(c.item.Metadata.Name, c.service.hearsIn) {
		return nil
	}
	select {
	case err := <-c.broken:
		return err
	case <-c.stream.Context().Done():
		return c.stream.Context().Err()
	}
}

func (s *service) reconcile(c *conversation) error {
	if err := c.dies(); err != nil {
		return err
	}
	refuses := s.refuses
	if refuses == nil {
		refuses = refuse
	}
	if refused := refuses(c); refused != nil {
		return c.send(result(refused))
	}
	if s.deploys != nil {
		return s.deploys(c)
	}
	return c.deploy()
}

// deploy saves a provider status before it goes on, and exports and reports something.
func (c *conversation) deploy() error {
	if len(c.item.Status.ProviderStatus) > 0 {
		r := success(`{"a":1}`)
		r.Conditions = []*deployerv1.Condition{{Type: "Raw", Status: "True", Reason: "AsItWas", Message: "it is raw"}}
		return c.send(result(r))
	}
	if problem, err := c.save(); err != nil || problem != "" {
		if err != nil {
			return err
		}
		return c.send(result(failed("the provider status was not saved")))
	}
	return c.send(waiting("the next call"))
}

// save saves a provider status and returns the answer of the host.
func (c *conversation) save() (problem string, err error) {
	if err := c.send(saved(1, goodStatus)); err != nil {
		return "", err
	}
	select {
	case m := <-c.heard:
		return m.GetAcknowledgement().GetError(), nil
	case <-c.stream.Context().Done():
		return "", c.stream.Context().Err()
	}
}

func (s *service) delete(c *conversation) error {
	if s.deletes != nil {
		return s.deletes(c)
	}
	if strings.Contains(string(c.item.Status.ProviderStatus), "deleting") {
		return c.send(succeeded(""))
	}
	r := waiting("the guests to leave")
	r.GetResult().ProviderStatus = []byte(`{"apiVersion":"example.org/v1","kind":"RawStatus","deleting":true}`)
	return c.send(r)
}

// refuse checks a provider configuration; nil means that it is good.
func refuse(c *conversation) *deployerv1.Result {
	var fields map[string]any
	if err := json.Unmarshal(c.item.Spec.Config, &fields); err != nil {
		return failed("spec.config is missing")
	}
	if _, found := fields[unknownField]; found {
		return failed("unknown field " + unknownField)
	}
	return nil
}

func rendered(children ...*deployerv1.Child) *deployerv1.RenderResponse {
	return &deployerv1.RenderResponse{
		Outcome: &deployerv1.RenderResponse_Children{Children: &deployerv1.Children{Children: children}},
	}
}

func differing(changes ...*deployerv1.Change) *deployerv1.DiffResponse {
	return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: &deployerv1.Changes{Changes: changes}}}
}

func result(r *deployerv1.Result) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: r}}
}

func success(exports string) *deployerv1.Result {
	return &deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: []byte(exports)}}}
}

func succeeded(exports string) *deployerv1.PluginMessage { return result(success(exports)) }

func failed(message string) *deployerv1.Result {
	return &deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{Errors: []*deployerv1.Error{{
		Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Reconcile", Reason: "Refused", Message: message,
	}}}}}
}

func waiting(waitingFor string) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{
		WaitingFor: waitingFor,
	}}})
}

func saved(sequence uint64, document string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: []byte(document)},
	}}
}

func progress(step string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{Progress: &deployerv1.Progress{Step: step}}}
}

// says is a deployer that says just this for a valid item.
func says(messages ...*deployerv1.PluginMessage) func(*service) {
	return func(s *service) {
		s.deploys = func(c *conversation) error {
			for _, m := range messages {
				if err := c.send(m); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func refused(what string) error { return fmt.Errorf("the raw plugin does not take %s", what) }
