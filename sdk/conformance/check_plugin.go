package conformance

import (
	"bytes"
	"context"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exposition"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/launch"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// checkStrangers checks that only the host gets an answer. Start has checked that the host does.
func (e *examination) checkStrangers(ctx context.Context) {
	for _, name := range e.plugin.program.Answered(ctx, e.limits.Answer) {
		e.breaks(RuleMutualTLS, "%s got an answer", name)
	}
}

func (e *examination) checkEndsWhenTold(ctx context.Context) {
	problem, signalled := launch.EndWhenTold(ctx, e.plugin.path, e.plugin.options.launch(), e.limits)
	if problem != "" {
		e.breaks(RuleEndsWhenTold, "%s", problem)
	}
	if signalled != "" {
		e.breaks(RuleSignalsIgnored, "%s", signalled)
	}
}

func (e *examination) checkEndsWithHost(ctx context.Context) {
	if problem := launch.EndWithHost(ctx, e.plugin.path, e.plugin.options.launch(), e.limits); problem != "" {
		e.breaks(RuleEndsWithHost, "%s", problem)
	}
}

func (e *examination) checkInfo(context.Context) {
	for _, flaw := range hostside.FlawsOfInfo(e.info()) {
		e.breaks(RuleInfo, "%s", flaw)
	}
}

func (e *examination) checkInfoSame(ctx context.Context) {
	again, err := e.plugin.getInfo(ctx)
	if err == nil && !proto.Equal(e.info(), again) {
		e.breaks(RuleInfo, "the answer was {%.100q} at first and {%.100q} in the end",
			e.info().String(), again.String())
	}
}

// checkConfigure configures the plugin, because each operation needs that.
func (e *examination) checkConfigure(ctx context.Context) {
	for range 2 {
		problems, err := e.configure(ctx, e.options.Configuration)
		if err == nil && len(problems) > 0 && len(e.options.Configuration) == 0 {
			e.lost = "the plugin needs a configuration document: " + problems[0].GetMessage()
			return
		}
		if err != nil || len(problems) > 0 {
			e.breaks(RuleConfigure, "the document is refused: %v (error %v)", problems, err)
			e.lost = "the plugin could not be configured"
			return
		}
	}
	document, err := yaml.YAMLToJSON(e.options.Configuration)
	if err == nil {
		document, err = strange.WithField(document)
	}
	if err != nil {
		e.breaks(RuleConfigure, "a document other than a YAML or JSON object is accepted: %v", err)
		return
	}
	if problems, err := e.configure(ctx, document); err == nil && len(problems) == 0 {
		e.breaks(RuleConfigure, "the field %s was accepted", strange.Field)
	}
	// The plugin must go on with the valid one.
	if _, err := e.configure(ctx, e.options.Configuration); err != nil {
		e.breaks(RuleConfigure, "after a document was refused: %v", err)
	}
}

func (e *examination) configure(ctx context.Context, document []byte) ([]*deployerv1.Problem, error) {
	out, err := bounded(ctx, e.limits.Answer, e.plugin.service.Configure, &deployerv1.ConfigureRequest{Document: document})
	return out.GetProblems(), err
}

func (e *examination) checkHealth(ctx context.Context) {
	e.askHealth(ctx, "")
	end, err := e.idle(ctx)
	if err != nil {
		e.breaks(RuleConcurrentCalls, "%v", err)
		return
	}
	defer end()
	e.askHealth(ctx, "during a call: ")
}

func (e *examination) askHealth(ctx context.Context, when string) {
	in := &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName}
	health, err := bounded(ctx, e.limits.Answer, grpc_health_v1.NewHealthClient(e.plugin.conn).Check, in)
	if health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		e.breaks(RuleHealth, "%sthe status of service %q is %s (error %v)", when, in.GetService(), health.GetStatus(), err)
	}
}

// checkHooks runs the hooks for a probe, and for the items of the cases.
func (e *examination) checkHooks(ctx context.Context) {
	itemType := e.firstType()
	if hooked := e.info().GetHookedDeployItemTypes(); len(hooked) > 0 {
		itemType = v1alpha1.DeployItemType(hooked[0])
	}
	calls := append(wire.Each(e.cases, func(c Case) Call { return c.Call }), e.newProbe(itemType, "hook"))
	for _, hookType := range e.can().GetHookTypes() {
		if hook.Type(hookType) == hook.Start {
			e.runHooks(ctx, hookType, Call{})
			continue
		}
		for _, call := range calls {
			e.runHooks(ctx, hookType, call)
		}
	}
}

// runHooks runs the hooks with the item and the Target of a call.
func (e *examination) runHooks(ctx context.Context, hookType string, call Call) {
	input := hostside.HookCall{Type: hook.Type(hookType), DeployItem: call.DeployItem}
	if call.Target != nil {
		e.plugin.meet(&call)
		resolved := call.objects().Resolved(call.Target)
		if input.Target = resolved.Target; e.can().GetHookTargets() && input.Type != hook.DuringResponsibilityCheck {
			input.Resolved = resolved
		}
	}
	in, _ := input.Request() // it can be marshalled
	out, err := bounded(ctx, e.limits.Probe, e.plugin.service.RunHooks, in)
	if err != nil || len(out.GetOutcomes()) == 0 {
		e.breaks(RuleHooks, "hook type %.100q is listed, but RunHooks has no outcome (error %v)", hookType, err)
	}
	silent := hook.Type(hookType) == hook.ShouldReconcile && e.can().GetScheduleInConfiguration() &&
		!bytes.Contains(in.GetDeployItem(), []byte(hook.ScheduleField))
	for _, flaw := range hostside.FlawsOfHooks(out.GetOutcomes(), silent) {
		e.breaks(RuleHooks, "hook type %.100q: %s", hookType, flaw)
	}
}

// checkHoldings asks for the holdings without access to the host's cluster. Holdings elsewhere can still be listed. It
// also has one collected that the plugin does not have.
func (e *examination) checkHoldings(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.Probe)
	defer cancel()
	out, err := e.plugin.service.Holdings(ctx, &deployerv1.HoldingsRequest{})
	if err != nil || out.GetOutcome() == nil {
		e.breaks(RuleHoldings, "expected holdings or a failure, but found: %v (error %v)", out, err)
	}
	if _, strange := hostside.ReadHoldings(out.GetHeld().GetHoldings()); strange > 0 {
		e.breaks(RuleHoldings, "%d holdings lack the namespace, the name or the UID of a deploy item", strange)
	}
	unknown := e.newProbe(e.firstType(), "holding").DeployItem
	err = e.plugin.Collect(ctx, nil, []sdk.Holding{{Namespace: unknown.Namespace, Name: unknown.Name, UID: unknown.UID}})
	e.breaksOff(RuleHoldings, "Collect of an unknown holding", err)
}

// checkMetrics asks for the metrics and reads them as the host does.
func (e *examination) checkMetrics(ctx context.Context) {
	out, err := bounded(ctx, e.limits.Answer, e.plugin.service.Metrics, &deployerv1.MetricsRequest{})
	if err == nil {
		err = exposition.Check(out.GetFamilies())
	}
	if err != nil {
		e.breaks(RuleMetrics, "expected metrics in the text format of Prometheus, but found: %v", err)
	}
}

// bounded asks a simple question.
func bounded[In, Out any](
	ctx context.Context, within time.Duration, method func(context.Context, *In, ...grpc.CallOption) (*Out, error), in *In,
) (*Out, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return method(ctx, in)
}
