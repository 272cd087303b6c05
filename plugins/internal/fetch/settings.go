package fetch

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

// hosts are the names of registries: with a port or without, and neither a scheme nor a path.
var hosts = regexp.MustCompile(`^(\[[0-9a-f:.]+\]|[a-z0-9]([-a-z0-9._]*[a-z0-9])?)(:[0-9]{1,5})?$`)

// CheckRegistries adds the mistakes in registries of a configuration document to its problems.
func CheckRegistries(p *pluginconfig.Problems, field string, registries []Registry) {
	for i, r := range registries {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !hosts.MatchString(r.Host):
			p.Add(at+".host", "expected a host in lower case, such as registry.example.org or registry.example.org:5000, "+
				"but found %q", r.Host)
		case slices.ContainsFunc(registries[:i], func(other Registry) bool { return other.Host == r.Host }):
			p.Add(at+".host", "%s is there twice", r.Host)
		}
		if r.PlainHTTP && r.InsecureSkipTLSVerify {
			p.Add(at+".insecureSkipTLSVerify", "has no meaning with plainHTTP: take one of them out")
		}
		if r.PlainHTTP && len(r.CAData) > 0 {
			p.Add(at+".caData", "has no meaning with plainHTTP: take one of them out")
		}
		if r.InsecureSkipTLSVerify && len(r.CAData) > 0 {
			p.Add(at+".caData", "has no meaning with insecureSkipTLSVerify: take one of them out")
		}
		if err := checkCertificates(r.CAData); err != nil {
			p.Add(at+".caData", "expected certificates in PEM: %v", err)
		}
	}
}

// checkCertificates refuses anything but certificates. An empty text is fine.
func checkCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	for n := 1; ; n++ {
		var block *pem.Block
		block, text = pem.Decode(text)
		switch {
		case block == nil && n == 1:
			return errors.New("found none")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("found %q as number %d", block.Type, n)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("read number %d: %w", n, err)
		}
	}
}
