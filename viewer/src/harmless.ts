// Makes every text of the page harmless: names of files, branches and tools are written by others, too.
import { type ComponentChildren, Fragment, options } from "preact";
import { visible } from "./text";

function shown(children: ComponentChildren): ComponentChildren {
  if (typeof children === "string") return visible(children);
  return Array.isArray(children) ? children.map(shown) : children;
}

const before = options.vnode;
options.vnode = (vnode) => {
  const props = vnode.props as { children?: ComponentChildren };
  const isShown = typeof vnode.type === "string" || vnode.type === Fragment;
  if (isShown && props.children !== undefined) props.children = shown(props.children);
  before?.(vnode);
};
