package target

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

const (
	adviceExec        = "running commands is not allowed; use a token or client-certificate-data"
	adviceProvider    = "authentication plugins are not allowed; use a token or client-certificate-data"
	adviceImpersonate = "impersonation is not allowed; use that user's own credentials"
)

// Fields that no cluster and no user of a kubeconfig may have, and what to tell the user. The impersonation fields are "as" in a
// file and "act-as" where the internal type was written.
var (
	forbiddenInCluster = map[string]string{
		"certificate-authority": adviceFile("certificate-authority-data"),
	}
	forbiddenInUser = map[string]string{
		"exec":               adviceExec,
		"auth-provider":      adviceProvider,
		"client-certificate": adviceFile("client-certificate-data"),
		"client-key":         adviceFile("client-key-data"),
		"tokenFile":          adviceFile("token"),
		"as":                 adviceImpersonate,
		"as-uid":             adviceImpersonate,
		"as-groups":          adviceImpersonate,
		"as-user-extra":      adviceImpersonate,
		"act-as":             adviceImpersonate,
		"act-as-uid":         adviceImpersonate,
		"act-as-groups":      adviceImpersonate,
		"act-as-user-extra":  adviceImpersonate,
	}
)

func adviceFile(instead string) string {
	return "reading files is not allowed; use " + instead
}

// rebuild writes a kubeconfig anew: the current context with its cluster and user, and of these only the fields that are named
// here. It refuses what is forbidden in any cluster or user, used or not. The object has no ambiguities.
func rebuild(kubeconfig *yaml.Node) (string, []Problem) {
	r := &reader{}
	clusters := r.entries(kubeconfig, "clusters", "cluster")
	users := r.entries(kubeconfig, "users", "user")
	contexts := r.entries(kubeconfig, "contexts", "context")
	r.forbid(clusters, forbiddenInCluster)
	r.forbid(users, forbiddenInUser)

	current := r.required(kubeconfig, "", "current-context")
	config := clientcmdv1.Config{CurrentContext: current}
	if context, ok := r.named(contexts, "contexts", "current-context", current); ok {
		named := r.context(context)
		config.Contexts = []clientcmdv1.NamedContext{named}
		if cluster, ok := r.named(clusters, "clusters", context.field+".cluster", named.Context.Cluster); ok {
			config.Clusters = []clientcmdv1.NamedCluster{r.cluster(cluster)}
		}
		if user, ok := r.named(users, "users", context.field+".user", named.Context.AuthInfo); ok {
			config.AuthInfos = []clientcmdv1.NamedAuthInfo{r.user(user)}
		}
	}
	if len(r.problems) > 0 {
		return "", r.problems
	}
	text, err := writeKubeconfig(config)
	if err != nil {
		return "", []Problem{invalid("kubeconfig", "cannot be written as JSON")}
	}
	return text, nil
}

// writeKubeconfig writes a kubeconfig in JSON, which is YAML.
func writeKubeconfig(config clientcmdv1.Config) (string, error) {
	config.Kind, config.APIVersion = "Config", clientcmdv1.SchemeGroupVersion.Version
	text, err := json.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return string(text), nil
}

// entry is one of the named clusters, users or contexts. Its node is nil if there is nothing but a name.
type entry struct {
	name, field string
	node        *yaml.Node
}

// reader reads fields of a kubeconfig and notes each problem that it meets.
type reader struct {
	problems []Problem
}

func (r *reader) note(problem Problem) {
	r.problems = append(r.problems, problem)
}

// entries reads a list of named entries, whose content is in the field of the name inner.
func (r *reader) entries(kubeconfig *yaml.Node, list, inner string) []entry {
	node := lookup(kubeconfig, list)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		r.note(invalid(list, "expected a list, found %s", kindOf(node)))
		return nil
	}
	var entries []entry
	seen := map[string]bool{}
	for i, item := range node.Content {
		name := r.required(item, fmt.Sprintf("%s[%d]", list, i), "name")
		if name == "" {
			name = strconv.Itoa(i) // still checked, so that all problems are reported at once
		}
		e := entry{name: name, field: list + "[" + quote(name) + "]", node: lookup(item, inner)}
		if e.node != nil && e.node.Kind != yaml.MappingNode {
			r.note(invalid(e.field, "expected an object in the field %s, found %s", inner, kindOf(e.node)))
		}
		if seen[name] {
			r.note(invalid(e.field, "the name appears twice"))
		}
		seen[name] = true
		entries = append(entries, e)
	}
	return entries
}

func (r *reader) forbid(entries []entry, advice map[string]string) {
	for _, e := range entries {
		for _, name := range slices.Sorted(maps.Keys(advice)) {
			if lookup(e.node, name) != nil {
				r.note(forbidden(e.field+"."+name, advice[name]))
			}
		}
	}
}

// named returns the entry that the field refers to. An empty name was reported already.
func (r *reader) named(entries []entry, list, field, name string) (entry, bool) {
	if name == "" {
		return entry{}, false
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		r.note(invalid(field, "there is no %s in %s", quote(name), list))
		return entry{}, false
	}
	return entries[i], true
}

func (r *reader) context(e entry) clientcmdv1.NamedContext {
	return clientcmdv1.NamedContext{Name: e.name, Context: clientcmdv1.Context{
		Cluster:   r.required(e.node, e.field, "cluster"),
		AuthInfo:  r.required(e.node, e.field, "user"),
		Namespace: r.text(e.node, e.field, "namespace"),
	}}
}

func (r *reader) cluster(e entry) clientcmdv1.NamedCluster {
	return clientcmdv1.NamedCluster{Name: e.name, Cluster: clientcmdv1.Cluster{
		Server:                   r.required(e.node, e.field, "server"),
		TLSServerName:            r.text(e.node, e.field, "tls-server-name"),
		InsecureSkipTLSVerify:    r.flag(e.node, e.field, "insecure-skip-tls-verify"),
		CertificateAuthorityData: r.base64(e.node, e.field, "certificate-authority-data"),
		ProxyURL:                 r.text(e.node, e.field, "proxy-url"),
		DisableCompression:       r.flag(e.node, e.field, "disable-compression"),
	}}
}

func (r *reader) user(e entry) clientcmdv1.NamedAuthInfo {
	return clientcmdv1.NamedAuthInfo{Name: e.name, AuthInfo: clientcmdv1.AuthInfo{
		ClientCertificateData: r.base64(e.node, e.field, "client-certificate-data"),
		ClientKeyData:         r.base64(e.node, e.field, "client-key-data"),
		Token:                 r.text(e.node, e.field, "token"),
		Username:              r.text(e.node, e.field, "username"),
		Password:              r.text(e.node, e.field, "password"),
	}}
}

// required returns a text that must not be empty.
func (r *reader) required(object *yaml.Node, field, name string) string {
	if lookup(object, name) == nil {
		r.note(invalid(join(field, name), "is missing"))
		return ""
	}
	return r.text(object, field, name)
}

// text returns a text, empty if it is not there.
func (r *reader) text(object *yaml.Node, field, name string) string {
	node := lookup(object, name)
	if node == nil {
		return ""
	}
	if !isText(node) {
		r.note(invalid(join(field, name), "expected a text, found %s", kindOf(node)))
		return ""
	}
	return node.Value
}

// flag returns a truth value, false if it is not there.
func (r *reader) flag(object *yaml.Node, field, name string) bool {
	node := lookup(object, name)
	if node == nil {
		return false
	}
	value, err := strconv.ParseBool(node.Value)
	if err != nil || node.ShortTag() != tagBool {
		r.note(invalid(join(field, name), "expected true or false, found %s", kindOf(node)))
		return false
	}
	return value
}

// base64 returns the bytes that a text encodes, nil if it is not there.
func (r *reader) base64(object *yaml.Node, field, name string) []byte {
	decoded, err := base64.StdEncoding.DecodeString(r.text(object, field, name))
	if err != nil {
		r.note(invalid(join(field, name), "is not valid base64"))
		return nil
	}
	return decoded
}
