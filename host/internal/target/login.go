package target

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

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

// login says how to log in to a cluster: with a token for a ServiceAccount in the namespace of the Target. It does not
// change.
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

// loginFields are those of an oidcConfig or a selfConfig.
type loginFields struct {
	Server            string   `json:"server"`
	CAData            string   `json:"caData"`
	Audience          []string `json:"audience"`
	ExpirationSeconds *int64   `json:"expirationSeconds"`
	ServiceAccount    struct {
		Name string `json:"name"`
	} `json:"serviceAccount"`
}

// readLogin reads an oidcConfig or a selfConfig. It is strict: a misspelt field would otherwise silently mean a
// default. onlyAccount is the ServiceAccount of each; empty if each names its own.
func readLogin(value any, field, onlyAccount string) (*login, []Problem) {
	known := []string{"serviceAccount", "expirationSeconds"}
	if field == oidcField {
		known = []string{"server", "caData", "serviceAccount", "audience", "expirationSeconds"}
	}
	p := &parser{problems: append(
		unknown(value, field, known...), unknown(get(value, "serviceAccount"), field+".serviceAccount", "name")...)}
	var fields loginFields
	if mistakes := decode(value, &fields, field); len(mistakes) > 0 {
		return nil, append(p.problems, mistakes...)
	}
	l := &login{
		field: field, expiration: defaultExpiration,
		serviceAccount: fields.ServiceAccount.Name, audiences: fields.Audience,
	}
	if field == oidcField {
		p.checkServer(fields.Server)
		authorities, problem := certificates(fields.CAData)
		if problem != "" {
			p.note(invalid(field+".caData", "%s", problem))
		}
		l.cluster = &clientcmdv1.Cluster{Server: fields.Server, CertificateAuthorityData: authorities}
		for i, audience := range fields.Audience {
			if audience == "" {
				p.note(invalid(indexed(field+".audience", i), "expected a text that is not empty"))
			}
		}
	}
	if l.serviceAccount == "" {
		l.serviceAccount = onlyAccount
	}
	p.checkAccount(field+".serviceAccount.name", l.serviceAccount, onlyAccount)
	if fields.ExpirationSeconds != nil {
		l.expiration = *fields.ExpirationSeconds
	}
	if l.expiration < minExpiration || l.expiration > maxExpiration {
		p.note(invalid(field+".expirationSeconds", "expected a whole number from %d to %d", minExpiration,
			int64(maxExpiration)))
	}
	return l, p.problems
}

// unknown has a problem for each field of an object that has none of these names.
func unknown(value any, field string, names ...string) (problems []Problem) {
	object, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.ContainsFunc(names, func(name string) bool { return fold(name) == fold(key) }) {
			problems = append(problems, invalid(join(field, key), "is not known; expected only %s", strings.Join(names, ", ")))
		}
	}
	return problems
}

// checkServer checks the address of an API server. A token must not travel in clear text, and the address is shown in
// messages.
func (p *parser) checkServer(text string) {
	const field = oidcField + ".server"
	address, err := url.Parse(text) // the error quotes the text, which may have a password in it
	switch {
	case text == "":
		p.note(invalid(field, "is missing"))
	case err != nil || address.Scheme != "https" || address.Hostname() == "":
		p.note(invalid(field, "is no https URL; write https://HOST:PORT"))
	case address.User != nil:
		p.note(invalid(field, "has a user or a password; remove it, as the token is the credential"))
	case strings.ContainsAny(text, "?#"):
		p.note(invalid(field, "has a query or a fragment; remove it"))
	}
}

// certificates returns the certificates that a text holds, in PEM, in base64, which is the only form that Landscaper
// takes; or what is wrong with it. A key beside them has no business with a plugin.
func certificates(text string) (authorities []byte, problem string) {
	if text == "" {
		return nil, ""
	}
	if strings.Contains(text, "-----BEGIN ") {
		return nil, "is PEM as such; encode it in base64, as in the certificate-authority-data of a kubeconfig"
	}
	rest, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, "is not valid base64; expected certificates in PEM, in base64"
	}
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, "holds a certificate that cannot be parsed; encode it anew"
		}
		authorities = append(authorities, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if authorities == nil {
		return nil, "holds no certificate in PEM once decoded from base64"
	}
	return authorities, ""
}

// checkAccount checks the name of a ServiceAccount, which must be the only one that is allowed, if that is not empty.
func (p *parser) checkAccount(field, name, only string) {
	switch {
	case name == "":
		p.note(invalid(field, "is missing"))
	case len(validation.ValidateServiceAccountName(name, false)) > 0:
		p.note(invalid(field, "is no name that a ServiceAccount can have: lower case letters, digits, '-' and '.'"))
	case only != "" && name != only:
		p.note(invalid(field, "is not %q, the only ServiceAccount of the namespace that the operator of the host allows; "+
			"leave serviceAccount out", only))
	}
}

// ownCluster returns how to reach the cluster of a client configuration, without any of its credentials. A file with
// the certificates of the authority is read, each time as it may be replaced: no plugin can be told to read it. The
// error is about the configuration, or that file.
func ownCluster(config *rest.Config) (*clientcmdv1.Cluster, error) {
	tls := config.TLSClientConfig
	encrypted := tls.Insecure || len(tls.CAData) > 0 || tls.CAFile != "" || len(tls.CertData) > 0 || tls.CertFile != ""
	server, _, err := rest.DefaultServerURL(config.Host, config.APIPath, schema.GroupVersion{}, encrypted)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	server.User = nil
	cluster := &clientcmdv1.Cluster{
		Server: server.String(), TLSServerName: tls.ServerName, InsecureSkipTLSVerify: tls.Insecure,
	}
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
