package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// AuditedNamespace is the namespace in which the audit log has the bodies of the requests that write deploy items and
// their locks, and of their answers.
const AuditedNamespace = "audited"

// auditLogSize, in megabytes, is more than any audit log has, so that it is not rotated while it is read.
const auditLogSize = "100000"

// auditPolicy has every request logged once, when it is answered, and outside AuditedNamespace without its body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: RequestResponse
  namespaces: [` + AuditedNamespace + `]
  verbs: [create, update, patch, delete]
  resources: [{group: landscaper.gardener.cloud, resources: [deployitems, deployitems/status, syncobjects]}]
  omitManagedFields: true
- level: Metadata
`

// startTimeout is how long an API server or its etcd may take to start, on a machine that is busy with something else.
const startTimeout = 2 * time.Minute

// ControlPlane is a kube-apiserver with its etcd, on loopback, with Pergola's CustomResourceDefinitions.
type ControlPlane struct {
	// Config of its administrator.
	Config *rest.Config
	// Kubeconfig is a file with the administrator's kubeconfig.
	Kubeconfig string
	// AuditLog is the file that the API server logs its requests to; empty for none.
	AuditLog string

	env *envtest.Environment // nil if somebody else has started it
}

// ControlPlaneOption changes a control plane before it is started.
type ControlPlaneOption func(*envtest.Environment)

// WithoutAuditLog keeps no audit log, which grows with each request.
func WithoutAuditLog() ControlPlaneOption {
	return func(env *envtest.Environment) {
		env.ControlPlane.GetAPIServer().Configure().
			Disable("audit-policy-file").Disable("audit-log-path").Disable("audit-log-mode")
	}
}

// StartControlPlane starts a control plane that keeps its files in dir. It must be stopped.
func StartControlPlane(ctx context.Context, dir string, options ...ControlPlaneOption) (*ControlPlane, error) {
	assets, err := Assets(ctx)
	if err != nil {
		return nil, err
	}
	definitions, err := Definitions()
	if err != nil {
		return nil, err
	}
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write audit policy: %w", err)
	}
	c := &ControlPlane{
		AuditLog:   filepath.Join(dir, "audit.log"),
		Kubeconfig: filepath.Join(dir, "kubeconfig"),
		env: &envtest.Environment{
			BinaryAssetsDirectory:    assets,
			ControlPlaneStartTimeout: startTimeout,
			CRDs:                     definitions,
			ErrorIfCRDPathMissing:    true,
		},
	}
	server := c.env.ControlPlane.GetAPIServer()
	server.Configure().
		Append("audit-policy-file", policy).
		Append("audit-log-path", c.AuditLog).
		Append("audit-log-mode", "blocking-strict").
		Append("audit-log-maxsize", auditLogSize)
	// Its own directory, so that it is the same server with the same certificates after a restart.
	server.CertDir = filepath.Join(dir, "apiserver")
	if err := os.Mkdir(server.CertDir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory of the API server: %w", err)
	}
	for _, option := range options {
		option(c.env)
	}
	c.env.ControlPlane.Etcd = &envtest.Etcd{}
	c.env.ControlPlane.Etcd.Configure().Append("unsafe-no-fsync", "true")
	if c.Config, err = c.env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), c.env.Stop())
	}
	c.Config.QPS = -1
	if err := os.WriteFile(c.Kubeconfig, c.env.KubeConfig, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write kubeconfig: %w", err), c.env.Stop())
	}
	return c, nil
}

// Stop stops the control plane, unless others use it too.
func (c *ControlPlane) Stop() error {
	if c.env == nil {
		return nil
	}
	if err := c.env.Stop(); err != nil {
		return fmt.Errorf("stop control plane: %w", err)
	}
	return nil
}

// RestartAPIServer kills the API server and starts it again at the same address, with all that it knows. It returns
// once the API server works.
func (c *ControlPlane) RestartAPIServer() error {
	server := c.env.ControlPlane.GetAPIServer()
	all, err := procfs.AllProcs()
	if err != nil {
		return fmt.Errorf("restart the API server: %w", err)
	}
	for _, p := range all {
		// Its program may be one of several names. Asked to end, it waits for its watches for longer than anybody
		// wants to wait for it.
		if command, err := p.CmdLine(); err == nil && slices.Contains(command, "--cert-dir="+server.CertDir) {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill the API server: %w", err)
			}
		}
	}
	if err := errors.Join(server.Stop(), server.Start()); err != nil {
		return fmt.Errorf("restart the API server: %w", err)
	}
	return nil
}

// Client returns a client of the administrator that knows Kubernetes' own types and Landscaper's.
func (c *ControlPlane) Client() (client.WithWatch, error) { return newClient(c.Config) }

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cl, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return cl, nil
}

// Scheme has Kubernetes' own types and Landscaper's.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	return scheme, nil
}

// Definitions are the CustomResourceDefinitions that Pergola works with.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	manifests, err := crds.Manifests()
	if err != nil {
		return nil, err
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, manifest := range manifests {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(manifest, definition); err != nil {
			return nil, fmt.Errorf("decode CustomResourceDefinition: %w", err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// InlineKubeconfig is the kubeconfig of a client configuration with everything inside, as a Target takes it: a client
// certificate or a token.
func InlineKubeconfig(config *rest.Config) ([]byte, error) {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	kubeconfig.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user"}
	kubeconfig.CurrentContext = "context"
	out, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return out, nil
}
