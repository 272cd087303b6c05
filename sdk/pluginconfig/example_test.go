package pluginconfig_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

// limits is the configuration of a plugin.
type limits struct {
	metav1.TypeMeta `json:",inline"`

	Workers int                   `json:"workers"`
	Timeout pluginconfig.Duration `json:"timeout"`
	Answer  pluginconfig.Amount   `json:"answer"`
}

func (l *limits) check(p *pluginconfig.Problems) {
	p.Number("workers", l.Workers, 100)
	p.Duration("timeout", l.Timeout, time.Second, time.Hour)
	p.Amount("answer", l.Answer, pluginconfig.AmountOf("1Ki"), pluginconfig.AmountOf("10Mi"))
}

func Example() {
	l := limits{
		TypeMeta: metav1.TypeMeta{APIVersion: "dns.example.org/v1", Kind: "DNSConfiguration"},
		Workers:  16, Timeout: pluginconfig.DurationOf("30s"), Answer: pluginconfig.AmountOf("1Mi"),
	}
	document := `
apiVersion: dns.example.org/v1
kind: DNSConfiguration
workers: 0
timout: 1m
answer: 1Gi
`
	for _, p := range pluginconfig.Load([]byte(document), &l, &l.TypeMeta, l.check) {
		fmt.Println(p.Field+":", p.Message)
	}
	// Output:
	// timout: unknown field; did you mean timeout?
	// workers: expected a number from 1 to 100, but found 0
	// answer: expected an amount from 1Ki to 10Mi, such as 20Mi, but found 1Gi
}
