package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// unknownField is added to a document that must then be refused.
const unknownField = "conformanceUnknownField"

const (
	// maxName bounds the names that a plugin gives to things, as the host does.
	maxName = 253
	// maxTypes bounds how many types one plugin serves, as the host does.
	maxTypes = 100
)

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (e *examination) checkInfoAtOnce(ctx context.Context) {
	info, err := e.plugin.getInfo(ctx)
	if err != nil {
		e.breaks(RuleInfoAtOnce, "no answer: %v", err)
		e.lost = "the plugin does not answer GetInfo"
		return
	}
	e.info = info
	e.pass(RuleInfoAtOnce)
}

func (e *examination) checkInfoComplete(context.Context) {
	e.pass(RuleInfoComplete)
	if !dnsLabel.MatchString(e.info.GetName()) {
		e.breaks(RuleInfoComplete, "the name %s is not a DNS label", quoted(e.info.GetName()))
	}
	if e.info.GetVersion() == "" {
		e.breaks(RuleInfoComplete, "the version is empty")
	}
	if len(e.info.GetVersion()) > maxName || len(e.info.GetSdkVersion()) > maxName {
		e.breaks(RuleInfoComplete, "a version is longer than %d bytes", maxName)
	}
	hooked, hookTypes := e.info.GetHookedDeployItemTypes(), e.info.GetCapabilities().GetHookTypes()
	least := 1
	if len(hooked) > 0 && len(hookTypes) > 0 {
		least = 0
	}
	e.checkTypes("deploy item type", e.info.GetDeployItemTypes(), least)
	e.checkTypes("hooked deploy item type", hooked, 0)
	if len(hooked) > 0 && len(hookTypes) == 0 {
		e.breaks(RuleInfoComplete, "hooked deploy item types are named, but there are no hooks")
	}
	for i, hookType := range hookTypes {
		if !slices.Contains(hook.Types(), hook.Type(hookType)) {
			e.breaks(RuleInfoComplete, "there is no type of hook %s; expected some of %s", quoted(hookType), hook.Types())
		}
		if slices.Contains(hookTypes[:i], hookType) {
			e.breaks(RuleInfoComplete, "hook type %s is named twice", quoted(hookType))
		}
	}
}

// checkTypes checks a list of deploy item types.
func (e *examination) checkTypes(what string, types []string, least int) {
	if len(types) < least || len(types) > maxTypes {
		e.breaks(RuleInfoComplete, "%d %ss are named; expected %d to %d", len(types), what, least, maxTypes)
	}
	for i, itemType := range types {
		if itemType == "" || len(itemType) > maxName {
			e.breaks(RuleInfoComplete, "%s %d is empty or longer than %d bytes", what, i, maxName)
		}
		if slices.Contains(types[:i], itemType) {
			e.breaks(RuleInfoComplete, "%s %s is named twice", what, quoted(itemType))
		}
	}
}

func (e *examination) checkSchemas(context.Context) {
	e.pass(RuleSchemas)
	if schema := e.info.GetConfigurationSchema(); len(schema) > 0 {
		e.checkSchema("of the configuration", schema)
	}
	for itemType, schema := range e.info.GetProviderConfigurationSchemas() {
		if !slices.Contains(e.info.GetDeployItemTypes(), itemType) {
			e.breaks(RuleSchemas, "there is a schema for %s, which the plugin does not serve", quoted(itemType))
		}
		e.checkSchema("for "+quoted(itemType), schema)
	}
}

func (e *examination) checkSchema(which string, schema []byte) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(schema, &fields); err != nil {
		e.breaks(RuleSchemas, "the schema %s is not a JSON object: %v", which, err)
	}
}

func (e *examination) checkInfoSame(ctx context.Context) {
	again, err := e.plugin.getInfo(ctx)
	if err != nil {
		return // the plugin is found to be lost
	}
	e.pass(RuleInfoSame)
	if !proto.Equal(e.info, again) {
		e.breaks(RuleInfoSame, "the answer was {%s} at first and {%s} in the end", quoted(e.info.String()), quoted(again.String()))
	}
}

// checkConfigure configures the plugin, as it has to be before any operation.
func (e *examination) checkConfigure(ctx context.Context) {
	for _, time := range []string{"first", "second"} {
		problems, err := e.configure(ctx, e.options.Configuration)
		switch {
		case status.Code(err) == codes.Unimplemented:
			e.breaks(RuleCapabilitiesTrue, "configure is claimed, but Configure answers: %v", err)
			return
		case err != nil:
			e.breaks(RuleConfigure, "the %s time: %v", time, err)
			e.lost = "the plugin could not be configured"
			return
		case len(problems) > 0 && len(e.options.Configuration) == 0:
			e.skip(RuleConfigure, "the plugin needs a configuration document: "+problems[0])
			e.lost = "the plugin needs a configuration document"
			return
		case len(problems) > 0:
			e.breaks(RuleConfigure, "the document is refused the %s time: %s", time, problems)
			e.lost = "the plugin could not be configured"
			return
		}
	}
	e.pass(RuleConfigure)
}

func (e *examination) checkConfigureStrict(ctx context.Context) {
	document, err := yaml.YAMLToJSON(e.options.Configuration)
	if err == nil {
		document, err = withUnknownField(document)
	}
	if err != nil {
		e.skip(RuleConfigureStrict, fmt.Sprintf("the configuration document is not a YAML or JSON object: %v", err))
		return
	}
	problems, err := e.configure(ctx, document)
	if status.Code(err) == codes.Unimplemented {
		return // it breaks another rule
	}
	e.pass(RuleConfigureStrict)
	if err == nil && len(problems) == 0 {
		e.breaks(RuleConfigureStrict, "the field %s was accepted", unknownField)
	}
	// Whatever it did with that document, it is to go on with the valid one.
	if _, err := e.configure(ctx, e.options.Configuration); err != nil {
		e.breaks(RuleConfigure, "after a document was refused: %v", err)
	}
}

func (e *examination) configure(ctx context.Context, document []byte) (problems []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.answer)
	defer cancel()
	out, err := e.plugin.service.Configure(ctx, &deployerv1.ConfigureRequest{Document: document})
	for _, p := range out.GetProblems() {
		problems = append(problems, fmt.Sprintf("%s: %s", p.GetField(), p.GetMessage()))
	}
	return problems, err
}

func (e *examination) checkHealth(ctx context.Context) {
	e.pass(RuleHealth)
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
	ctx, cancel := context.WithTimeout(ctx, e.limits.answer)
	defer cancel()
	health, err := grpc_health_v1.NewHealthClient(e.plugin.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: healthService})
	if err != nil {
		e.breaks(RuleHealth, "%sno answer: %v", when, err)
		return
	}
	if health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		e.breaks(RuleHealth, "%sthe status of service %q is %s", when, healthService, health.GetStatus())
	}
}

// withUnknownField returns a JSON object with a field that nobody knows.
func withUnknownField(document []byte) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	if fields == nil { // the document was null
		fields = map[string]json.RawMessage{}
	}
	fields[unknownField] = json.RawMessage("true")
	return json.Marshal(fields)
}
