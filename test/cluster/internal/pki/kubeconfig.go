package pki

import (
	"encoding/base64"
	"fmt"
)

const kubeconfigFormat = `apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: test
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: test
  context:
    cluster: test
    user: test
current-context: test
`

// Kubeconfig returns a self-contained kubeconfig file by which the holder of
// the client pair reaches the server, whose certificate the authority issued.
func (a *Authority) Kubeconfig(server string, client Pair) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, kubeconfigFormat,
		server, encode(a.pair.Certificate), encode(client.Certificate), encode(client.Key))
}
