package main

import (
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const zapErrorLevel = zapcore.ErrorLevel

var groupVersion = schema.GroupVersion{Group: "benchmark.distq.dev", Version: "v1"}

func addKnownTypes(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Item{}, &ItemList{}, &Set{}, &SetList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

// Item has a status that says which generation was seen.
type Item struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Text string `json:"text,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	} `json:"status,omitempty"`
}

// ItemList is what a list returns.
type ItemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Item `json:"items"`
}

// Set wants so many Pods.
type Set struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Replicas int64 `json:"replicas"`
	} `json:"spec,omitempty"`
	Status struct {
		Replicas int64 `json:"replicas,omitempty"`
	} `json:"status,omitempty"`
}

// SetList is what a list returns.
type SetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Set `json:"items"`
}

func (in *Item) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *ItemList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = make([]Item, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Item)
	}
	return &out
}

func (in *Set) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *SetList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = make([]Set, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Set)
	}
	return &out
}

func ownerReferences(set *Set) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(set, groupVersion.WithKind("Set"))}
}

func newPod(set *Set, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       set.Namespace,
			Labels:          map[string]string{setLabel: set.Name},
			OwnerReferences: ownerReferences(set),
		},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers:    []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
		},
	}
}
