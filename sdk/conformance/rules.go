package conformance

// Rule names a rule of the protocol for every plugin.
type Rule string

// The rules, in the order of a report. Rule.Text describes each.
const (
	RuleHandshake      Rule = "handshake"
	RuleMutualTLS      Rule = "mutual-tls"
	RuleSignalsIgnored Rule = "signals-ignored"
	RuleEndsWhenTold   Rule = "ends-when-told"
	RuleEndsWithHost   Rule = "ends-with-host"

	RuleHealth      Rule = "health"
	RuleInfo        Rule = "info"
	RuleSchemas     Rule = "schemas"
	RuleConfigure   Rule = "configure"
	RuleHooks       Rule = "hooks"
	RuleCredentials Rule = "credentials"
	RuleHoldings    Rule = "holdings"
	RuleMetrics     Rule = "metrics"
	RuleWatch       Rule = "watch"
	RulePanics      Rule = "panics"

	RuleStartFirst      Rule = "start-first"
	RuleTexts           Rule = "texts"
	RuleUnknownIgnored  Rule = "unknown-ignored"
	RuleStop            Rule = "stop"
	RuleLargeMessages   Rule = "large-messages"
	RuleConcurrentCalls Rule = "concurrent-calls"
	RuleCallEnds        Rule = "call-ends"

	RuleOneResult      Rule = "one-result"
	RuleHeartbeat      Rule = "heartbeat"
	RuleSequence       Rule = "sequence"
	RuleProviderStatus Rule = "provider-status"
	RuleResult         Rule = "result"
	RuleConditions     Rule = "conditions"

	RuleConfigStrict Rule = "config-strict"
	RuleValidate     Rule = "validate"
	RuleRender       Rule = "render"
	RuleDiff         Rule = "diff"
	RuleSaveRefused  Rule = "save-refused"
	RuleReconcile    Rule = "reconcile"
	RuleCheckHealth  Rule = "check-health"
	RuleForce        Rule = "force"
	RuleDelete       Rule = "delete"
	RuleAbort        Rule = "abort"
)

// rules lists the rules with their texts.
var rules = []struct {
	rule Rule
	text string
}{
	{RuleHandshake, "The first line on standard output is the handshake 1|version|unix|path|grpc|certificate, and " +
		"nothing comes before it. The version is one of the host's, and the socket is in the directory made by the host " +
		"for it."},
	{RuleMutualTLS, "The plugin serves TLS with the certificate of its handshake to the client with the certificate " +
		"from the host, an ECDSA P-256 one, and to no other."},
	{RuleSignalsIgnored, "SIGTERM and SIGINT do not end the plugin: the host ends it in order."},
	{RuleEndsWhenTold, "The process ends soon after the controller's Shutdown, even with a running call."},
	{RuleEndsWithHost, "The process ends soon after the lifeline reads end-of-file: its host is gone."},

	{RuleHealth, "The gRPC health service says SERVING for the service plugin, also during a call."},
	{RuleInfo, "GetInfo answers within 10 seconds, and the same each time: a name that is a DNS label, a version, and " +
		"deploy item types, none empty and each once; without any, it names the types for its hooks. Its types of hooks " +
		"exist."},
	{RuleSchemas, "Each schema is a JSON schema without references to other documents. By them, the configuration of " +
		"the plugin and the provider configurations of the cases are valid."},
	{RuleConfigure, "Configure accepts a valid document, also a second time, and refuses one with an unknown field."},
	{RuleHooks, "RunHooks answers with an outcome for each function of a listed hook type: none, a result without a " +
		"negative time to requeue after, or an error as in rule result. Start comes without a deploy item."},
	{RuleCredentials, "A call ends as usual whichever credentials, ocmConfig and access to the host cluster come with " +
		"it, and without any. No answer, message, error or line of the log holds credentials, and none what is secret in " +
		"the content of a Target."},
	{RuleHoldings, "With capability collect, Holdings answers soon, also without the access to the host cluster: with " +
		"holdings, each with the namespace, the name and the UID of a deploy item, or with a failure and its cause. " +
		"Collect of an unknown holding answers, too."},
	{RuleMetrics, "With capability metrics, Metrics answers with at most 1,000 series in 1 MiB, in the text format of " +
		"Prometheus."},

	{RuleWatch, "With capability watch, Watch stays open, and wakes deploy items by namespace and name."},
	{RulePanics, "No call panics: no error has the reason PluginPanic."},

	{RuleStartFirst, "A call with another first message than start, or with a deploy item outside JSON, ends with an " +
		"error or a failure, and the plugin lives on."},
	{RuleTexts, "Texts and JSON are UTF-8, also where they quote or cut a text from the host."},
	{RuleUnknownIgnored, "Unknown fields and kinds of messages, and answers without a question, are ignored."},
	{RuleStop, "A call still ends with a result when it is asked to stop."},
	{RuleLargeMessages, "Messages of up to 64 MiB are accepted."},
	{RuleConcurrentCalls, "Calls for different deploy items run at the same time, and so does Abort."},
	{RuleCallEnds, "A call ends soon after it was cancelled, and the plugin takes the next one."},

	{RuleOneResult, "A call sends exactly one result, with an outcome, and nothing after it."},
	{RuleHeartbeat, "A call without other messages sends a heartbeat at least every 10 seconds."},
	{RuleSequence, "The sequence numbers of saved provider statuses and of questions rise within a call. Each question " +
		"names its subject."},
	{RuleProviderStatus, "A provider status is a JSON object with apiVersion and kind."},
	{RuleResult, "The result of a job in progress names the awaited event, and no negative poll interval. The result of " +
		"a failed call has 1 to 16 errors; each has a reason in CamelCase, a message, no negative pause, and codes that " +
		"exist. A problem of a configuration has a message. Sentences have at most 8 KiB. Exports are a JSON object."},
	{RuleConditions, "A result has at most 8 conditions. Each has a type in CamelCase, neither another one's nor the " +
		"host's, a status of True, False or Unknown, and a reason in CamelCase."},

	{RuleConfigStrict, "An item without a provider configuration, or with an unknown field in it, fails with " +
		"ERR_CONFIGURATION_PROBLEM, and the message names spec.config or the field."},
	{RuleValidate, "With capability validate, Validate finds no problem in a valid provider configuration, and one that " +
		"names an unknown field. It changes nothing."},
	{RuleRender, "Render of a valid item answers with desired objects, and the same each time: JSON objects with " +
		"apiVersion and kind, each with a unique name, not empty. It changes nothing. Reconcile takes them unchanged, and " +
		"succeeds with them."},
	{RuleDiff, "Diff of a valid item answers with changes, before it is deployed and afterwards, the same ones each " +
		"time, but with others after the deployment. Each change names its object and a known action. It changes nothing."},
	{RuleSaveRefused, "A call does not succeed if its provider status could not be saved, or if it asked for the " +
		"pick-up of its job in vain."},
	{RuleReconcile, "The job of a valid item succeeds, also after a call of it was cut short, and again with its saved " +
		"provider status."},
	{RuleCheckHealth, "CheckHealth of a deployed item answers with health or a lack, saves no provider status and " +
		"changes nothing."},
	{RuleForce, "A forced job succeeds: ForceReconcile until its first answer, if there is one, and then Reconcile."},
	{RuleDelete, "The deletion of the item succeeds, and so does one after everything is gone, with the earlier " +
		"provider status as well. After it, Diff shows creations as before the deployment, Holdings has none of the item, " +
		"and the item can be deployed again."},
	{RuleAbort, "The abort of a job succeeds, and so does the next job."},
}

// Rules returns all rules, in the order of a report.
func Rules() []Rule {
	names := make([]Rule, 0, len(rules))
	for _, r := range rules {
		names = append(names, r.rule)
	}
	return names
}

// Text describes the rule in a sentence; empty for an unknown rule.
func (r Rule) Text() string {
	for _, known := range rules {
		if known.rule == r {
			return known.text
		}
	}
	return ""
}
