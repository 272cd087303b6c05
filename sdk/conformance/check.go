package conformance

import (
	"context"
	"errors"
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Binary starts a program as the host does, checks all rules and ends it. A program that cannot be started as a plugin breaks a
// rule; the error is for what says nothing about the plugin: a file that cannot be executed, cases that are incomplete, the end
// of ctx.
//
// The checks call everything that the plugin claims to be capable of, with deploy items that cannot be deployed. Only the Cases of the
// options have an effect on the world.
func Binary(ctx context.Context, path string, o Options) (*Report, error) {
	plugin, err := Start(ctx, path, o)
	var noPlugin *handshakeError
	if errors.As(err, &noPlugin) {
		return notStarted(noPlugin.Violation), nil
	}
	if err != nil {
		return nil, err
	}
	defer plugin.Close() //nolint:contextcheck // it ends what was started, even after ctx has ended
	return plugin.Check(ctx, o)
}

// Attached checks a plugin that is served at an address such as "unix:///tmp/hello/plugin.sock". The rules of its process are
// not applicable. The error is as with Binary.
func Attached(ctx context.Context, address string, o Options) (*Report, error) {
	plugin, err := Attach(address)
	if err != nil {
		return nil, err
	}
	defer plugin.Close() //nolint:contextcheck // it ends what was started, even after ctx has ended
	plugin.limits = o.bounds()
	return plugin.Check(ctx, o)
}

// Check checks all rules. The plugin lives on, unless it breaks them: how a program ends is seen of processes of its own, if it was
// started here. The error is as with Binary.
func (p *Plugin) Check(ctx context.Context, o Options) (*Report, error) {
	cases, err := o.prepared()
	if err != nil {
		return nil, err
	}
	e := &examination{plugin: p, limits: p.limits, options: o, cases: cases, ledger: newLedger()}
	for _, s := range steps {
		e.take(ctx, s)
	}
	e.stopWatching()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	report := &Report{Findings: e.findings()}
	if e.info != nil {
		report.Info = infoFromWire(e.info)
	}
	return report, nil
}

// notStarted is the report about a program that broke a rule of the handshake.
func notStarted(broken Violation) *Report {
	l := newLedger()
	for _, rule := range handshakeRules {
		if rule == broken.Rule {
			break
		}
		l.pass(rule)
	}
	l.breaks(broken.Rule, "%s", broken.Message)
	for _, rule := range Rules() {
		l.skip(rule, "the plugin could not be started")
	}
	return &Report{Findings: l.findings()}
}

// handshakeRules are the rules of the handshake in the order in which they are checked.
var handshakeRules = []Rule{RuleHandshakeLine, RuleHandshakeVersion, RuleHandshakeSocket, RuleMutualTLS}

// examination is one run of the checks.
type examination struct {
	*ledger

	plugin  *Plugin
	limits  limits
	options Options
	cases   []Case

	info *deployerv1.GetInfoResponse // nil until the plugin has told it
	// usual is how a call for an item without provider configuration ends; empty if it has no result.
	usual string
	// separate sends the large documents of an item as the host does to this plugin.
	separate bool
	probes   int
	watching *watching
	// lost says why no more can be asked of the plugin; empty as long as it answers.
	lost string
}

// step is the check of a rule, and maybe of others that come along with it.
type step struct {
	rule Rule
	// unless says why the rule cannot be checked; empty if it can. nil: it always can.
	unless func(*examination) string
	check  func(*examination, context.Context)
	// apart says that the check has a process of its own.
	apart bool
}

// steps are the checks in their order.
var steps = []step{
	{rule: RuleHandshakeLine, unless: notRunHere, check: (*examination).checkHandshake},
	{rule: RuleRefusesStrangers, unless: notRunHere, check: (*examination).checkRefusesStrangers},
	{rule: RuleInfoAtOnce, check: (*examination).checkInfoAtOnce},
	{rule: RuleInfoComplete, check: (*examination).checkInfoComplete},
	{rule: RuleSchemas, unless: noSchemas, check: (*examination).checkSchemas},
	{rule: RuleConfigure, unless: notConfigured, check: (*examination).checkConfigure},
	{rule: RuleConfigureStrict, unless: notConfigured, check: (*examination).checkConfigureStrict},
	{rule: RuleWatchStaysOpen, unless: noWatch, check: (*examination).startWatching},
	{rule: RuleHealth, check: (*examination).checkHealth},
	{rule: RuleCapabilitiesTrue, check: (*examination).checkCapabilitiesTrue},
	{rule: RuleCapabilitiesClaimed, check: (*examination).checkCapabilitiesClaimed},
	{rule: RuleHooksAnswer, check: (*examination).checkHooksAnswer},
	{rule: RuleStartFirst, unless: noDeployer, check: (*examination).checkStartFirst},
	{rule: RuleItemInvalid, unless: noDeployer, check: (*examination).checkItemInvalid},
	{rule: RuleConfigRequired, unless: noDeployer, check: (*examination).checkConfigRequired},
	{rule: RuleUnknownIgnored, unless: noUsualResult, check: (*examination).checkUnknownIgnored},
	{rule: RuleStrayAcknowledgement, unless: noUsualResult, check: (*examination).checkStrayAcknowledgement},
	{rule: RuleStop, unless: noUsualResult, check: (*examination).checkStop},
	{rule: RuleContextCredentials, unless: noCredentials, check: (*examination).checkContextCredentials},
	{rule: RuleHostCluster, unless: noHostCluster, check: (*examination).checkHostCluster},
	{rule: RuleHoldings, unless: noCollector, check: (*examination).checkHoldings},
	{rule: RuleLargeMessages, unless: noUsualResult, check: (*examination).checkLargeMessages},
	{rule: RuleConcurrentCalls, unless: noUsualResult, check: (*examination).checkConcurrentCalls},
	{rule: RuleAbortBeside, unless: noAbort, check: (*examination).checkAbortBeside},
	{rule: RuleCallEnds, unless: noUsualResult, check: (*examination).checkCallEnds},
	{rule: RuleSeparateDocuments, unless: notSeparate, check: (*examination).checkSeparateDocuments},
	{rule: RuleConfigStrict, unless: noCases, check: (*examination).checkConfigStrict},
	{rule: RuleRenderChildren, unless: noRender, check: (*examination).checkRender},
	{rule: RuleDiffChanges, unless: noDiff, check: (*examination).checkDiff},
	{rule: RuleSaveRefused, unless: noCases, check: (*examination).checkCases},
	{rule: RuleWatchStaysOpen, unless: noWatch, check: (*examination).checkWatchStaysOpen},
	{rule: RuleInfoSame, check: (*examination).checkInfoSame},
	{rule: RuleSignalsIgnored, unless: notRunHere, check: (*examination).checkSignalsIgnored, apart: true},
	{rule: RuleEndsWhenTold, unless: notRunHere, check: (*examination).checkEndsWhenTold, apart: true},
	{rule: RuleEndsWithHost, unless: notRunHere, check: (*examination).checkEndsWithHost, apart: true},
}

// comeAlong are the rules that are checked together with another one.
var comeAlong = map[Rule][]Rule{
	RuleHandshakeLine:  {RuleHandshakeVersion, RuleHandshakeSocket, RuleMutualTLS},
	RuleRenderChildren: {RuleRenderSame},
	RuleDiffChanges:    {RuleDiffSame},
	RuleSaveRefused:    {RuleReconcileSucceeds, RuleReconcileAgain, RuleResolveTarget, RuleRenderTakenBack, RuleDeleteSucceeds, RuleDeleteAgain},
}

// take takes one step, and sees to it that the plugin that a check has cost its life is not asked for more.
func (e *examination) take(ctx context.Context, s step) {
	why := ""
	switch {
	case ctx.Err() != nil:
		return
	case e.lost != "" && !s.apart:
		why = e.lost
	case s.unless != nil:
		why = s.unless(e)
	}
	if why != "" {
		for _, rule := range append([]Rule{s.rule}, comeAlong[s.rule]...) {
			e.skip(rule, why)
		}
		return
	}
	s.check(e, ctx)
	if s.apart || e.lost != "" {
		return
	}
	if _, err := e.plugin.getInfo(ctx); err != nil && ctx.Err() == nil {
		e.breaks(s.rule, "the plugin does not answer any more after this was checked: %v", err)
		e.lost = fmt.Sprintf("the plugin did not survive the check of %s", s.rule)
	}
}

func notRunHere(e *examination) string {
	if e.plugin.run == nil {
		return "the process of the plugin was not started here"
	}
	return ""
}

func notConfigured(e *examination) string {
	switch {
	case !e.info.GetCapabilities().GetConfigure():
		return "the plugin has no capability configure"
	case e.options.KeepConfiguration:
		return "the plugin is to stay configured as it is"
	default:
		return ""
	}
}

func noSchemas(e *examination) string {
	if len(e.info.GetConfigurationSchema()) == 0 && len(e.info.GetProviderConfigurationSchemas()) == 0 {
		return "the plugin has no schemas"
	}
	return ""
}

func noWatch(e *examination) string {
	if !e.info.GetCapabilities().GetWatch() {
		return "the plugin has no capability watch"
	}
	return ""
}

func noDeployer(e *examination) string {
	if len(e.info.GetDeployItemTypes()) == 0 && len(e.info.GetHookedDeployItemTypes()) > 0 {
		return "the plugin serves no deploy items, but brings hooks"
	}
	return ""
}

func noAbort(e *examination) string {
	if !e.info.GetCapabilities().GetAbort() {
		return "the plugin has no capability abort"
	}
	return noUsualResult(e)
}

func noUsualResult(e *examination) string {
	if why := noDeployer(e); why != "" {
		return why
	}
	if e.usual == "" {
		return "a call for an item without a provider configuration has no result"
	}
	return ""
}

func notSeparate(e *examination) string {
	if !e.info.GetCapabilities().GetSeparateDocuments() {
		return "the plugin has no capability separate_documents"
	}
	return noCases(e)
}

func noCredentials(e *examination) string {
	if !e.info.GetCapabilities().GetContextCredentials() {
		return "the plugin has no capability context_credentials"
	}
	return noUsualResult(e)
}

func noHostCluster(e *examination) string {
	if !e.info.GetCapabilities().GetHostCluster() {
		return "the plugin has no capability host_cluster"
	}
	return noUsualResult(e)
}

func noCollector(e *examination) string {
	if !e.info.GetCapabilities().GetCollect() {
		return "the plugin has no capability collect"
	}
	return ""
}

func noRender(e *examination) string {
	if why := noCases(e); why != "" {
		return why
	}
	if !e.info.GetCapabilities().GetRender() {
		return "the plugin has no capability render"
	}
	return ""
}

func noDiff(e *examination) string {
	if why := noCases(e); why != "" {
		return why
	}
	if !e.info.GetCapabilities().GetDiff() {
		return "the plugin has no capability diff"
	}
	return ""
}

func noCases(e *examination) string {
	if why := noDeployer(e); why != "" {
		return why
	}
	if len(e.cases) == 0 {
		return "it needs a deploy item to deploy"
	}
	return ""
}
