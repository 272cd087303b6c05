package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// tells is a deployer that says something about the credentials of a valid item.
func tells(message func(*deployerv1.Credentials) *deployerv1.PluginMessage) func(*service) {
	return func(s *service) {
		s.deploys = func(c *conversation) error {
			if m := message(c.start.GetCredentials()); m != nil {
				if err := c.send(m); err != nil {
					return err
				}
			}
			return c.deploy()
		}
	}
}

// diesOf is a plugin whose calls break off over some credentials.
func diesOf(wrong func(*deployerv1.Credentials) bool) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(srv, &pickyStream{ServerStream: stream, wrong: wrong})
	})}
}

// pickyStream receives no start message with wrong credentials.
type pickyStream struct {
	grpc.ServerStream

	wrong func(*deployerv1.Credentials) bool
}

func (s *pickyStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	request, ok := m.(*deployerv1.HostMessage)
	if start := request.GetStart(); ok && start != nil && strings.Contains(string(start.GetDeployItem()), "credentials") && s.wrong(start.GetCredentials()) {
		return status.Error(codes.Internal, "not with these credentials")
	}
	return nil
}

var ofCredentials = map[string]misbehaviour{
	"TellsOfHeader": {
		reason: "progress is shown to everybody",
		want:   []Rule{RuleContextCredentials},
		service: tells(func(c *deployerv1.Credentials) *deployerv1.PluginMessage {
			if len(c.GetChartRepositories()) == 0 {
				return nil
			}
			return progress("logging in with " + c.GetChartRepositories()[0].GetAuthHeader())
		}),
	},
	"ExportsPassword": {
		reason: "exports are of what was deployed",
		want:   []Rule{RuleContextCredentials},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if len(c.item.Status.ProviderStatus) == 0 || len(c.start.GetCredentials().GetRegistries()) == 0 {
					return c.deploy()
				}
				return c.send(succeeded(string(c.start.GetCredentials().GetRegistries()[0].GetDockerConfig())))
			}
		},
	},
	"FailsOverProblem": {
		reason: "a chart of a public registry needs none",
		want:   []Rule{RuleContextCredentials},
		options: diesOf(func(c *deployerv1.Credentials) bool {
			return len(c.GetRegistries()) > 0 && c.GetRegistries()[0].GetError() != ""
		}),
	},
	"FailsWithoutAny": {
		reason:  "most Contexts name none",
		want:    []Rule{RuleContextCredentials},
		options: diesOf(func(c *deployerv1.Credentials) bool { return c != nil && len(c.GetRegistries()) == 0 }),
	},
	"FailsForOlderHost": {
		reason:  "it does not know the field",
		want:    []Rule{RuleContextCredentials},
		options: diesOf(func(c *deployerv1.Credentials) bool { return c == nil }),
	},
}

// Passwords that anybody could say by chance are no sign of anything.
func TestSecretsOfCredentials(t *testing.T) {
	t.Parallel()
	credentials := &sdk.Credentials{
		Registries: []sdk.RegistryCredentials{
			{DockerConfig: []byte(`{"auths":{"a":{"username":"somebody-else","password":"12345678","auth":"c29tZWJvZHk="},"b":{"identitytoken":"identity","registrytoken":"registry"}}}`)},
			{DockerConfig: []byte(`{"auths":{"c":{"password":"1234567"}}}`)},
			{DockerConfig: []byte(`no JSON at all`)},
			{Problem: "not readable"},
		},
		ChartRepositories: []sdk.ChartRepositoryCredentials{{AuthHeader: "Bearer of news"}, {AuthHeader: "short"}, {URL: "https://example.org"}},
	}
	got := map[string]bool{}
	for _, secret := range secretsOf(credentials) {
		got[string(secret)] = true
	}
	want := map[string]bool{"12345678": true, "c29tZWJvZHk=": true, "identity": true, "registry": true, "Bearer of news": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if secrets := secretsOf(nil); secrets != nil {
		t.Errorf("expected none, but found %q", secrets)
	}
}
