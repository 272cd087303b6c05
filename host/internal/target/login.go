package target

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// The fields of the content of a Kubernetes cluster that name a ServiceAccount to log in with.
const (
	oidcField = "oidcConfig"
	selfField = "selfConfig"
)

// Lifetimes of tokens in seconds: the default is Landscaper's, the bounds are the API server's.
const (
	defaultExpiration = 24 * 60 * 60
	minExpiration     = 10 * 60
	maxExpiration     = 1 << 32
)

// login says how to log in to a cluster: with a token for a ServiceAccount in the namespace of the Target. It does not change.
type login struct {
	// field that it was read from: oidcField or selfField.
	field          string
	serviceAccount string
	// audiences of the token; none for those of the API server that issues it.
	audiences []string
	// expiration is how many seconds the token is to live.
	expiration int64
	// cluster to log in to; nil for the Landscaper cluster itself.
	cluster *clientcmdv1.Cluster
}

// readLogin reads an oidcConfig or a selfConfig. It is strict: a misspelt field would otherwise silently mean a default. onlyAccount is the
// ServiceAccount of each; empty if each names its own.
func readLogin(node *yaml.Node, field, onlyAccount string) (*login, []Problem) {
	if node.Kind != yaml.MappingNode {
		return nil, []Problem{invalid(field, "expected an object, found %s", kindOf(node))}
	}
	r := &reader{}
	l := &login{field: field}
	if field == oidcField {
		r.only(node, field, "server", "caData", "serviceAccount", "audience", "expirationSeconds")
		l.cluster = &clientcmdv1.Cluster{
			Server:                   r.server(node, field),
			CertificateAuthorityData: r.certificates(node, field, "caData"),
		}
		l.audiences = r.texts(node, field, "audience")
	} else {
		r.only(node, field, "serviceAccount", "expirationSeconds")
	}
	l.serviceAccount = r.serviceAccount(node, field, onlyAccount)
	l.expiration = r.expiration(node, field)
	return l, r.problems
}

// only notes each field of an object that has none of these names.
func (r *reader) only(object *yaml.Node, field string, names ...string) {
	for key := range pairs(object) {
		if !slices.ContainsFunc(names, func(name string) bool { return fold(name) == fold(key.Value) }) {
			r.note(invalid(join(field, key.Value), "is not known; expected only %s", strings.Join(names, ", ")))
		}
	}
}

// server returns the address of an API server. A token must not travel in clear text, and the address is shown in messages.
func (r *reader) server(object *yaml.Node, field string) string {
	const name = "server"
	text := r.required(object, field, name)
	if text == "" {
		return ""
	}
	address, err := url.Parse(text) // the error quotes the text, which may have a password in it
	switch {
	case err != nil || address.Scheme != "https" || address.Hostname() == "":
		r.note(invalid(join(field, name), "is no https URL; write https://HOST:PORT"))
	case address.User != nil:
		r.note(invalid(join(field, name), "has a user or a password; remove it, as the token is the credential"))
	case strings.ContainsAny(text, "?#"):
		r.note(invalid(join(field, name), "has a query or a fragment; remove it"))
	}
	return text
}

// certificates returns certificates in PEM that a text encodes in base64, nil if it is not there. Landscaper takes no other
// form, so that this does not either.
func (r *reader) certificates(object *yaml.Node, field, name string) []byte {
	node := lookup(object, name)
	if node == nil {
		return nil
	}
	if strings.HasPrefix(strings.TrimSpace(node.Value), "-----BEGIN") {
		r.note(invalid(join(field, name), "is PEM as such; encode it in base64, as in the certificate-authority-data of a kubeconfig"))
		return nil
	}
	noted := len(r.problems)
	decoded := r.base64(object, field, name)
	if len(r.problems) == noted && !x509.NewCertPool().AppendCertsFromPEM(decoded) {
		r.note(invalid(join(field, name), "holds no certificate in PEM once decoded from base64"))
	}
	return decoded
}

// texts returns a list of texts, nil if it is not there.
func (r *reader) texts(object *yaml.Node, field, name string) []string {
	node := lookup(object, name)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		r.note(invalid(join(field, name), "expected a list of texts, found %s", kindOf(node)))
		return nil
	}
	texts := make([]string, 0, len(node.Content))
	for i, item := range node.Content {
		if !isText(item) || item.Value == "" {
			r.note(invalid(fmt.Sprintf("%s[%d]", join(field, name), i), "expected a text that is not empty"))
			continue
		}
		texts = append(texts, item.Value)
	}
	return texts
}

// serviceAccount returns the name of a ServiceAccount: the only one that is allowed, if that is not empty, be it named or not.
func (r *reader) serviceAccount(object *yaml.Node, field, only string) string {
	account := lookup(object, "serviceAccount")
	if account == nil && only != "" {
		return only
	}
	field = join(field, "serviceAccount")
	if account != nil && account.Kind != yaml.MappingNode {
		r.note(invalid(field, "expected an object with the field name, found %s", kindOf(account)))
		return ""
	}
	r.only(account, field, "name")
	name := r.required(account, field, "name")
	if name != "" && len(validation.ValidateServiceAccountName(name, false)) > 0 {
		r.note(invalid(join(field, "name"), "is no name that a ServiceAccount can have: lower case letters, digits, '-' and '.'"))
	} else if name != "" && only != "" && name != only {
		r.note(invalid(join(field, "name"), "is not %q, the only ServiceAccount of the namespace that the operator of the host allows; leave serviceAccount out", only))
	}
	return name
}

// expiration returns how many seconds a token is to live.
func (r *reader) expiration(object *yaml.Node, field string) int64 {
	const name = "expirationSeconds"
	node := lookup(object, name)
	if node == nil {
		return defaultExpiration
	}
	if tag := node.ShortTag(); node.Kind != yaml.ScalarNode || tag != tagInt && tag != tagFloat {
		r.note(invalid(join(field, name), "expected a number, found %s", kindOf(node)))
		return 0
	}
	// YAML has numbers that JSON has not, such as octal ones. Nobody means them here.
	seconds, err := strconv.ParseInt(node.Value, 10, 64)
	if err != nil || !json.Valid([]byte(node.Value)) || seconds < minExpiration || seconds > maxExpiration {
		r.note(invalid(join(field, name), "expected a whole number from %d to %d", minExpiration, int64(maxExpiration)))
	}
	return seconds
}

// OwnCluster returns how to reach the cluster of a client configuration, without any of its credentials. A file with the
// certificates of the authority is read, each time as it may be replaced: no plugin can be told to read it. The error is about the configuration,
// or that file.
func OwnCluster(config *rest.Config) (*clientcmdv1.Cluster, error) {
	tls := config.TLSClientConfig
	encrypted := tls.Insecure || len(tls.CAData) > 0 || tls.CAFile != "" || len(tls.CertData) > 0 || tls.CertFile != ""
	server, _, err := rest.DefaultServerURL(config.Host, config.APIPath, schema.GroupVersion{}, encrypted)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	server.User = nil
	cluster := &clientcmdv1.Cluster{Server: server.String(), TLSServerName: tls.ServerName, InsecureSkipTLSVerify: tls.Insecure}
	if tls.Insecure {
		return cluster, nil // client-go refuses certificates that would not be looked at
	}
	cluster.CertificateAuthorityData = tls.CAData
	if len(tls.CAData) == 0 && tls.CAFile != "" {
		if cluster.CertificateAuthorityData, err = os.ReadFile(tls.CAFile); err != nil {
			return nil, fmt.Errorf("read the certificate authority of the API server: %w", err)
		}
	}
	return cluster, nil
}

// contentWith writes content whose kubeconfig has a token for a cluster and nothing else.
func contentWith(cluster *clientcmdv1.Cluster, token string) (string, error) {
	const name = "target"
	kubeconfig, err := writeKubeconfig(clientcmdv1.Config{
		CurrentContext: name,
		Clusters:       []clientcmdv1.NamedCluster{{Name: name, Cluster: *cluster}},
		AuthInfos:      []clientcmdv1.NamedAuthInfo{{Name: name, AuthInfo: clientcmdv1.AuthInfo{Token: token}}},
		Contexts:       []clientcmdv1.NamedContext{{Name: name, Context: clientcmdv1.Context{Cluster: name, AuthInfo: name}}},
	})
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]any{"kubeconfig": kubeconfig})
	if err != nil {
		return "", fmt.Errorf("write content: %w", err)
	}
	return string(content), nil
}
