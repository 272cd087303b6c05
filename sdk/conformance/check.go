package conformance

import (
	"context"
	"errors"
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/watchdog"
)

// Binary starts a program as the host does, checks all rules and ends it. A program that does not start as a plugin
// breaks a rule. The error is not about the plugin: the file is not executable, a case is incomplete, or ctx ended.
//
// The checks call all capabilities of the plugin, with deploy items without a provider configuration. Only the Cases of
// the options have an effect on the world.
func Binary(ctx context.Context, path string, o Options) (*Report, error) {
	plugin, err := Start(ctx, path, o)
	return check(ctx, plugin, err, o)
}

// Attached checks a plugin at an address such as "unix:///tmp/hello/plugin.sock". The rules of its process are not
// applicable. The error is as with Binary.
func Attached(ctx context.Context, address string, o Options) (*Report, error) {
	plugin, err := Attach(ctx, address, o)
	return check(ctx, plugin, err, o)
}

func check(ctx context.Context, plugin *Plugin, err error, o Options) (*Report, error) {
	if unusable := (*unusableError)(nil); errors.As(err, &unusable) && ctx.Err() == nil {
		f := &findings{}
		f.Break(unusable.rule, "%s", unusable.message)
		for _, rule := range Rules() {
			f.Skip(rule, "the plugin could not be started")
		}
		return &Report{Findings: list(f)}, nil
	}
	if err != nil {
		return nil, err
	}
	defer plugin.Close()
	return plugin.Check(ctx, o)
}

// Check checks all rules. The plugin lives on, unless it breaks them: the end of a program is checked with other
// processes, if Start has started it. The error is as with Binary.
func (p *Plugin) Check(ctx context.Context, o Options) (*Report, error) {
	cases, err := o.prepared(p.info)
	if err != nil {
		return nil, err
	}
	e := &examination{plugin: p, limits: p.limits, options: o, cases: cases, findings: &findings{}}
	undo := p.watchdog.ReportTo(func(rule watchdog.Breach, message string) {
		e.breaks(Rule(rule), "%s", message)
	})
	defer undo()
	defer func() { e.watch.End() }()
	for _, s := range steps {
		e.take(ctx, s)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &Report{Info: p.Info(), Findings: list(e.findings)}, nil
}

// examination is one run of the checks.
type examination struct {
	findings *findings
	plugin   *Plugin
	limits   bounds.Limits
	options  Options
	cases    []Case
	watch    *watchdog.Watch // nil for a plugin without one

	probes int
	// lost is the reason to stop asking the plugin; empty as long as it answers.
	lost string
}

// need is a requirement of some checks.
type need struct {
	met func(*examination) bool
	why string // the rule is not applicable
}

var (
	aProcess = need{
		func(e *examination) bool { return e.plugin.program != nil }, "the process of the plugin was not started here",
	}
	mayConfigure = need{
		func(e *examination) bool { return !e.options.KeepConfiguration }, "the plugin is to stay configured as it is",
	}
	aDeployer = need{func(e *examination) bool {
		return len(e.info().GetDeployItemTypes()) > 0 || len(e.info().GetHookedDeployItemTypes()) == 0
	}, "the plugin serves no deploy items, but brings hooks"}
	configurer = capability("configure", (*deployerv1.Capabilities).GetConfigure)
	collector  = capability("collect", (*deployerv1.Capabilities).GetCollect)
	renderer   = capability("render", (*deployerv1.Capabilities).GetRender)
	differ     = capability("diff", (*deployerv1.Capabilities).GetDiff)
	validator  = capability("validate", (*deployerv1.Capabilities).GetValidate)
	healthy    = capability("check_health", (*deployerv1.Capabilities).GetCheckHealth)
	metered    = capability("metrics", (*deployerv1.Capabilities).GetMetrics)
	aborter    = capability("abort", (*deployerv1.Capabilities).GetAbort)
	watcher    = capability("watch", (*deployerv1.Capabilities).GetWatch)
	aSchema    = need{func(e *examination) bool {
		return len(e.info().GetConfigurationSchema()) > 0 || len(e.info().GetProviderConfigurationSchemas()) > 0
	}, "the plugin has no schema"}
	aCase = need{func(e *examination) bool { return len(e.cases) > 0 }, "it needs a deploy item to deploy"}
)

func capability(name string, has func(*deployerv1.Capabilities) bool) need {
	return need{func(e *examination) bool { return has(e.can()) }, "the plugin has no capability " + name}
}

// step is a check of some rules. A plugin that dies in it breaks the first one.
type step struct {
	check func(*examination, context.Context)
	rules []Rule
	needs []need
	// reached: checkCases passes those rules that it comes to.
	reached bool
}

// steps are the checks in their order.
var steps = []step{
	{(*examination).checkStrangers, []Rule{RuleMutualTLS, RuleHandshake}, []need{aProcess}, false},
	{(*examination).checkInfo, []Rule{RuleInfo, RulePanics}, nil, false},
	{(*examination).checkSchemas, []Rule{RuleSchemas}, []need{aSchema}, false},
	{(*examination).checkConfigure, []Rule{RuleConfigure}, []need{mayConfigure, configurer}, false},
	{(*examination).openWatch, []Rule{RuleWatch}, []need{aDeployer, watcher}, false},
	{(*examination).checkHealth, []Rule{RuleHealth}, nil, false},
	{(*examination).checkHooks, []Rule{RuleHooks}, nil, false},
	{(*examination).checkHoldings, []Rule{RuleHoldings}, []need{collector}, false},
	{(*examination).checkStartFirst, []Rule{RuleStartFirst}, []need{aDeployer}, false},
	{(*examination).checkConfigRequired, []Rule{
		RuleConfigStrict, RuleOneResult, RuleHeartbeat, RuleSequence, RuleProviderStatus, RuleResult, RuleConditions,
		RuleCredentials,
	}, []need{aDeployer}, false},
	{(*examination).checkTexts, []Rule{RuleTexts}, []need{aDeployer}, false},
	{(*examination).checkUnknownIgnored, []Rule{RuleUnknownIgnored}, []need{aDeployer}, false},
	{(*examination).checkStop, []Rule{RuleStop}, []need{aDeployer}, false},
	{(*examination).checkCredentials, []Rule{RuleCredentials}, []need{aDeployer}, false},
	{(*examination).checkLargeMessages, []Rule{RuleLargeMessages}, []need{aDeployer}, false},
	{(*examination).checkConcurrentCalls, []Rule{RuleConcurrentCalls}, []need{aDeployer}, false},
	{(*examination).checkCallEnds, []Rule{RuleCallEnds}, []need{aDeployer}, false},
	// The trials of the cases call these.
	{nil, []Rule{RuleRender}, []need{aDeployer, aCase, renderer}, true},
	{nil, []Rule{RuleDiff}, []need{aDeployer, aCase, differ}, true},
	{nil, []Rule{RuleCheckHealth}, []need{aDeployer, aCase, healthy}, true},
	{nil, []Rule{RuleAbort}, []need{aDeployer, aCase, aborter}, true},
	{(*examination).checkCases, []Rule{
		RuleReconcile, RuleDelete, RuleSaveRefused, RuleForce,
	}, []need{aDeployer, aCase}, true},
	{(*examination).checkValidate, []Rule{RuleValidate}, []need{aDeployer, validator}, false},
	// Now there is something to count.
	{(*examination).checkMetrics, []Rule{RuleMetrics}, []need{metered}, false},
	{(*examination).checkWatch, []Rule{RuleWatch}, []need{aDeployer, watcher}, false},
	{(*examination).checkInfoSame, []Rule{RuleInfo}, nil, false},
	{(*examination).checkEndsWhenTold, []Rule{RuleEndsWhenTold, RuleSignalsIgnored}, []need{aProcess}, false},
	{(*examination).checkEndsWithHost, []Rule{RuleEndsWithHost}, []need{aProcess}, false},
}

// openWatch opens the Watch for the time of the other calls.
func (e *examination) openWatch(ctx context.Context) {
	forward := e.plugin.Watch
	if e.can().GetWatchItems() {
		cases := func() []Call { return wire.Each(e.cases, func(c Case) Call { return e.asHost(c.Call) }) }
		forward = func(ctx context.Context, woken func(namespace, name string)) error {
			return e.plugin.WatchItems(ctx, cases, woken)
		}
	}
	e.watch = e.plugin.watchdog.Open(ctx, forward)
}

func (e *examination) checkWatch(context.Context) {
	for _, flaw := range e.watch.End() {
		e.breaks(RuleWatch, "%s", flaw)
	}
}

// take takes one step. After the death of the plugin it takes no more.
func (e *examination) take(ctx context.Context, s step) {
	if ctx.Err() != nil {
		return
	}
	why := e.lost
	for _, need := range s.needs {
		if why == "" && !need.met(e) {
			why = need.why
		}
	}
	for _, rule := range s.rules {
		switch {
		case why != "":
			e.findings.Skip(rule, why)
		case !s.reached:
			e.findings.Pass(rule)
		}
	}
	if why != "" || s.check == nil {
		return
	}
	s.check(e, ctx)
	if _, err := e.plugin.getInfo(ctx); err != nil && ctx.Err() == nil && e.lost == "" {
		e.breaks(s.rules[0], "the plugin does not answer any more after this was checked: %v", err)
		e.lost = fmt.Sprintf("the plugin did not survive the check of %s", s.rules[0])
	}
}

func (e *examination) info() *deployerv1.GetInfoResponse { return e.plugin.info }

func (e *examination) can() *deployerv1.Capabilities { return e.plugin.info.GetCapabilities() }

func (e *examination) breaks(rule Rule, format string, args ...any) {
	e.findings.Break(rule, format, args...)
}

// call makes one call as the host does, and notes the broken rules. where describes the call.
func (e *examination) call(
	ctx context.Context, where string, open exchange.Opener, call Call, further ...*deployerv1.HostMessage,
) *Result {
	call = e.asHost(call)
	e.plugin.meet(&call)
	broken := func(rule Rule, message string) { e.breaks(rule, "%s: %s", where, message) }
	return call.converse(ctx, e.limits.Silence, open, broken, further...)
}

// asHost returns the call as the host makes it to this plugin, with bait among the credentials.
func (e *examination) asHost(call Call) Call {
	call.separate = e.can().GetSeparateDocuments()
	if !e.can().GetContextCredentials() {
		call.Credentials = nil
	} else if call.Credentials == nil {
		call.Credentials = watchdog.Bait()
	}
	if !e.can().GetOcmConfig() {
		call.OCMConfig = nil
	}
	if !e.can().GetHostCluster() {
		call.HostCluster = nil
	}
	return call
}

func (e *examination) firstType() v1alpha1.DeployItemType {
	if types := e.info().GetDeployItemTypes(); len(types) > 0 {
		return v1alpha1.DeployItemType(types[0])
	}
	return ""
}
