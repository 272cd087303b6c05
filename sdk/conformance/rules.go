package conformance

// Rule names a rule of the protocol that every plugin has to keep.
type Rule string

// The rules, in the order in which they are reported. Rule.Text says what each one demands.
const (
	RuleHandshakeLine    Rule = "handshake-line"
	RuleHandshakeVersion Rule = "handshake-version"
	RuleHandshakeSocket  Rule = "handshake-socket"
	RuleMutualTLS        Rule = "mutual-tls"
	RuleRefusesStrangers Rule = "refuses-strangers"
	RuleSignalsIgnored   Rule = "signals-ignored"
	RuleEndsWhenTold     Rule = "ends-when-told"
	RuleEndsWithHost     Rule = "ends-with-host"

	RuleHealth              Rule = "health"
	RuleInfoAtOnce          Rule = "info-at-once"
	RuleInfoComplete        Rule = "info-complete"
	RuleInfoSame            Rule = "info-same"
	RuleSchemas             Rule = "schemas"
	RuleConfigure           Rule = "configure"
	RuleConfigureStrict     Rule = "configure-strict"
	RuleCapabilitiesTrue    Rule = "capabilities-true"
	RuleCapabilitiesClaimed Rule = "capabilities-claimed"
	RuleHooksAnswer         Rule = "hooks-answer"
	RuleHookOutcomes        Rule = "hook-outcomes"
	RuleWatchStaysOpen      Rule = "watch-stays-open"
	RuleSeparateDocuments   Rule = "separate-documents"
	RuleContextCredentials  Rule = "context-credentials"
	RuleHostCluster         Rule = "host-cluster"
	RuleHoldings            Rule = "holdings"

	RuleStartFirst           Rule = "start-first"
	RuleItemInvalid          Rule = "item-invalid"
	RuleUnknownIgnored       Rule = "unknown-ignored"
	RuleStrayAcknowledgement Rule = "stray-acknowledgement"
	RuleStop                 Rule = "stop"
	RuleLargeMessages        Rule = "large-messages"
	RuleConcurrentCalls      Rule = "concurrent-calls"
	RuleAbortBeside          Rule = "abort-beside"

	RuleOneResult      Rule = "one-result"
	RuleHeartbeat      Rule = "heartbeat"
	RuleStatusSequence Rule = "status-sequence"
	RuleStatusKind     Rule = "status-kind"
	RuleResolveTarget  Rule = "resolve-target"
	RuleWaitingFor     Rule = "waiting-for"
	RuleFailedSaysWhy  Rule = "failed-says-why"
	RuleExportsObject  Rule = "exports-object"
	RuleConditions     Rule = "conditions"
	RuleCallEnds       Rule = "call-ends"

	RuleConfigRequired    Rule = "config-required"
	RuleConfigStrict      Rule = "config-strict"
	RuleRenderChildren    Rule = "render-children"
	RuleRenderSame        Rule = "render-same"
	RuleRenderTakenBack   Rule = "render-taken-back"
	RuleDiffChanges       Rule = "diff-changes"
	RuleDiffSame          Rule = "diff-same"
	RuleSaveRefused       Rule = "save-refused"
	RuleReconcileSucceeds Rule = "reconcile-succeeds"
	RuleReconcileAgain    Rule = "reconcile-again"
	RuleDeleteSucceeds    Rule = "delete-succeeds"
	RuleDeleteAgain       Rule = "delete-again"
)

// rules is the one place that says which rules there are and what they demand.
var rules = []struct {
	rule Rule
	text string
}{
	{RuleHandshakeLine, "The first line on standard output is the handshake 1|version|network|address|grpc|certificate, and nothing comes before it."},
	{RuleHandshakeVersion, "The version in the handshake is one of those that the host offers."},
	{RuleHandshakeSocket, "The plugin listens on a Unix socket in the directory that the host has made for it."},
	{RuleMutualTLS, "The plugin serves TLS with the certificate of its handshake to the client whose certificate the host has given, an ECDSA P-256 one."},
	{RuleRefusesStrangers, "A client without that certificate gets no answer."},
	{RuleSignalsIgnored, "SIGTERM and SIGINT do not end the plugin: the host ends it in order."},
	{RuleEndsWhenTold, "The process ends soon after the controller's Shutdown, even with a call under way."},
	{RuleEndsWithHost, "The process ends soon after the lifeline reads end-of-file: its host is gone."},

	{RuleHealth, "The gRPC health service says SERVING for the service plugin, also while a call is under way."},
	{RuleInfoAtOnce, "GetInfo answers within 10 seconds."},
	{RuleInfoComplete, "GetInfo tells a name that is a DNS label, a version, and deploy item types that are not empty, each once; without any, it names those that its hooks run for. Its types of hooks are those that there are."},
	{RuleInfoSame, "GetInfo answers the same each time."},
	{RuleSchemas, "The schemas of GetInfo are JSON objects, each for a type that the plugin serves."},
	{RuleConfigure, "Configure accepts a valid document, also a second time."},
	{RuleConfigureStrict, "Configure refuses a document with an unknown field."},
	{RuleCapabilitiesTrue, "What the plugin claims to be capable of is implemented."},
	{RuleCapabilitiesClaimed, "What the plugin does not claim to be capable of answers Unimplemented, or InvalidArgument to a configuration document. A plugin that serves no deploy item type has neither Reconcile nor Delete."},
	{RuleHooksAnswer, "RunHooks answers with an outcome for each function of a hook type that is listed, and with none for another type. Start comes without a deploy item."},
	{RuleHookOutcomes, "The outcome of a hook is none, a result without a negative time to requeue after, or an error with a reason and a message."},
	{RuleWatchStaysOpen, "The stream of Watch stays open."},
	{RuleSeparateDocuments, "With capability separate_documents, the provider configuration and the provider status are taken from beside the deploy item."},
	{RuleContextCredentials, "With capability context_credentials, a call ends as usual whichever credentials come with it, and without any. Nothing that is said in a call holds them."},
	{RuleHostCluster, "With capability host_cluster, a call ends as usual with the access to the host cluster and without it. Nothing that is said in a call holds its token."},
	{RuleHoldings, "With capability collect, Holdings answers soon, without the access to the host cluster, too: with holdings that each name the namespace, the name and the UID of a deploy item, or with a failure that says why."},

	{RuleStartFirst, "A call whose first message is not start ends with an error, and the plugin lives on."},
	{RuleItemInvalid, "A deploy item that is no JSON ends the call with an error or a failure, and the plugin lives on."},
	{RuleUnknownIgnored, "Fields and kinds of messages that the plugin does not know are ignored."},
	{RuleStrayAcknowledgement, "An acknowledgement, or an answer to a question, that nobody waits for is ignored."},
	{RuleStop, "A call that is asked to stop still ends with a result."},
	{RuleLargeMessages, "Messages of up to 64 MiB are accepted."},
	{RuleConcurrentCalls, "Calls for different deploy items run at the same time."},
	{RuleAbortBeside, "Abort answers while other calls are under way."},

	{RuleOneResult, "A call sends exactly one result, with an outcome, and nothing after it."},
	{RuleHeartbeat, "A call that has nothing else to say sends a heartbeat at least every 10 seconds."},
	{RuleStatusSequence, "The sequence numbers of saved provider statuses and of questions rise within a call."},
	{RuleStatusKind, "A provider status is a JSON object with apiVersion and kind."},
	{RuleResolveTarget, "A question for another Target, or for the credentials in a Secret, names it, and is asked only of a host that answers such questions."},
	{RuleWaitingFor, "A result that the job is in progress says what is being waited for, and no negative poll interval."},
	{RuleFailedSaysWhy, "A result that the call failed has at least one error; each has a reason and a message."},
	{RuleExportsObject, "Exports are a JSON object."},
	{RuleConditions, "A result has at most 8 conditions. Each has a type in CamelCase that is neither another one's nor the host's, a status that is True, False or Unknown, and a reason in CamelCase."},
	{RuleCallEnds, "A call ends soon after it was cancelled, and the plugin takes the next one."},

	{RuleConfigRequired, "An item without a provider configuration fails with ERR_CONFIGURATION_PROBLEM, and the message names spec.config."},
	{RuleConfigStrict, "An unknown field in the provider configuration fails with ERR_CONFIGURATION_PROBLEM, and the message names the field."},
	{RuleRenderChildren, "Render of a valid item answers with desired objects: JSON objects with apiVersion and kind, each with a name that is not empty and no other one's."},
	{RuleRenderSame, "Render answers the same each time."},
	{RuleRenderTakenBack, "Reconcile takes the desired objects of Render unchanged, and succeeds with them."},
	{RuleDiffChanges, "Diff of a valid item answers with changes, before it is deployed and afterwards. Each names its object and an action that there is, and its states are JSON objects or empty."},
	{RuleDiffSame, "Diff of an item that is not deployed answers the same each time."},
	{RuleSaveRefused, "A call whose provider status could not be saved does not succeed."},
	{RuleReconcileSucceeds, "The job of a valid item succeeds, also after a call of it was cut short."},
	{RuleReconcileAgain, "After success, the item with its saved provider status succeeds again."},
	{RuleDeleteSucceeds, "The deletion of the item succeeds."},
	{RuleDeleteAgain, "A deletion of what is already gone succeeds."},
}

// Rules returns all rules, in the order in which they are reported.
func Rules() []Rule {
	names := make([]Rule, 0, len(rules))
	for _, r := range rules {
		names = append(names, r.rule)
	}
	return names
}

// Text says in a sentence what the rule demands; empty for a rule that does not exist.
func (r Rule) Text() string {
	for _, known := range rules {
		if known.rule == r {
			return known.text
		}
	}
	return ""
}
