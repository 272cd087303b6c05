# Shows items that need no Pods.

outcome() {
	show 'pergola items wait mock manifest helm'
	show 'pergola items list'
	show 'kubectl get configmap settings shop-plain-greeting -o custom-columns=NAME:.metadata.name,DATA:.data'
	show 'kubectl get roses -o custom-columns=NAME:.metadata.name,HEIGHT:.spec.height'
	exports
}

chapter 'DeployItems: those of test/examples'
show 'kubectl create -f examples'
show 'pergola items wait mock'
: >first # tells the demo when
outcome

chapter 'A mistake: one of them has failed'
show 'pergola items wait mistake --for finished'
show 'pergola items show mistake'

chapter "An update: the ConfigMap's colour becomes red, the climbing rose is taken out of its item, the shop greets in the evening"
patch manifest '{"op":"replace","path":"/spec/config/manifests/0/manifest/data/colour","value":"red"},
  {"op":"remove","path":"/spec/config/manifests/2"}'
patch helm '{"op":"replace","path":"/spec/config/values/greeting","value":"good evening"}'
outcome

chapter 'A deletion'
show 'kubectl delete deployitems --all'
show '! kubectl get configmap settings shop-plain-greeting'
