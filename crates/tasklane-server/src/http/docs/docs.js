// Shows /openapi.json: routes, parameters, bodies, and a form to try each. No dependency.
"use strict";

const METHODS = ["get", "post", "patch", "put", "delete"];
const DEPTH_MAX = 8;
let schemas = {};

/** An element with attributes and children; text becomes a text node, so nothing is markup. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key in made && typeof value !== "string") made[key] = value;
    else made.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

/** A schema with its reference followed. */
function resolve(schema) {
  if (!schema || !schema.$ref) return schema || {};
  return schemas[schema.$ref.split("/").pop()] || {};
}

/** The variants of a schema that leaves a choice, without the one that is null. */
function variants(schema) {
  const list = schema.oneOf || schema.anyOf || [];
  return list.filter((one) => resolve(one).type !== "null");
}

function typeName(schema) {
  if (!schema) return "any";
  if (schema.$ref) return schema.$ref.split("/").pop();
  const types = [].concat(schema.type || []).filter((type) => type !== "null");
  if (types.includes("array")) return typeName(schema.items) + "[]";
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choice = variants(schema);
  if (choice.length > 0) return choice.map(typeName).join(" or ");
  return types.join(" or ") + (schema.format ? ` (${schema.format})` : "") || "any";
}

/** A value that has the form of a schema, to begin a body with. */
function sample(schema, depth = 0) {
  schema = resolve(schema);
  if (depth > DEPTH_MAX) return null;
  const choice = variants(schema);
  if (choice.length > 0) return sample(choice[0], depth + 1);
  if (schema.enum) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  const types = [].concat(schema.type || []);
  if (types.includes("object") || schema.properties) {
    const made = {};
    const required = schema.required || [];
    for (const [name, member] of Object.entries(schema.properties || {})) {
      // Members that may be left out are left out, except at the top, where they show the form.
      if (required.includes(name) || depth === 0) made[name] = sample(member, depth + 1);
    }
    return made;
  }
  if (types.includes("array")) return depth > 1 ? [] : [sample(schema.items, depth + 1)];
  if (types.includes("boolean")) return false;
  if (types.includes("integer") || types.includes("number")) return schema.minimum || 0;
  if (types.includes("string")) return schema.format === "date-time" ? "2026-11-15T12:00:00Z" : "";
  return null;
}

/** The members of a body as a table. */
function members(schema) {
  const shown = resolve(schema);
  const choice = variants(shown);
  if (choice.length > 0) return choice.map((one) => [element("p", {}, typeName(one)), members(one)]);
  const rows = Object.entries(shown.properties || {}).map(([name, member]) => {
    const must = (shown.required || []).includes(name) ? "" : "optional";
    const about = member.description || resolve(member).description || "";
    return element("tr", {}, element("td", {}, element("code", {}, name)),
      element("td", {}, element("code", {}, typeName(member))),
      element("td", {}, must), element("td", {}, about));
  });
  if (rows.length === 0) return element("p", {}, element("code", {}, typeName(schema)));
  return element("table", {}, rows);
}

function bodySchema(content) {
  const first = Object.values(content || {})[0];
  return first ? first.schema : undefined;
}

/** A row for each parameter, with a field to fill in. */
function parameterRows(operation, fields) {
  return (operation.parameters || []).map((parameter) => {
    const label = `${parameter.name} in ${parameter.in}`;
    const field = element("input", { class: "value", "aria-label": label });
    fields.push({ parameter, field });
    return element("tr", {},
      element("td", {}, element("code", {}, parameter.name), element("br"), parameter.in),
      element("td", {}, element("code", {}, typeName(parameter.schema)), element("br"),
        parameter.description || ""),
      element("td", {}, field));
  });
}

function responseRows(operation) {
  return Object.entries(operation.responses || {}).map(([status, response]) => {
    const schema = bodySchema(response.content);
    return element("tr", {}, element("td", {}, element("code", {}, status)),
      element("td", {}, response.description || ""),
      element("td", {}, schema ? element("code", {}, typeName(schema)) : ""));
  });
}

/** Where a call goes, by what was filled in. */
function target(path, fields) {
  const query = new URLSearchParams();
  for (const { parameter, field } of fields) {
    if (parameter.in === "path") {
      path = path.replace(`{${parameter.name}}`, encodeURIComponent(field.value));
    } else if (parameter.in === "query" && field.value !== "") {
      query.append(parameter.name, field.value);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function call(method, path, fields, body, output) {
  const request = { method: method.toUpperCase(), headers: {} };
  if (body && body.value.trim() !== "") {
    request.body = body.value;
    request.headers["Content-Type"] = "application/json";
  }
  const key = document.getElementById("key").value.trim();
  if (key !== "") request.headers["X-API-Key"] = key;
  const to = target(path, fields);
  output.textContent = `${request.method} ${to} …`;
  try {
    const response = await fetch(to, request);
    let text = await response.text();
    try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    output.textContent = `${response.status} ${response.statusText}\n${headers}\n\n${text}`;
  } catch (error) {
    output.textContent = `No answer: ${error.message}`;
  }
}

/** What is shown of one route once it is opened. */
function fill(place, method, path, operation) {
  const fields = [];
  const parts = [];
  if (operation.description) parts.push(element("p", {}, operation.description));
  const scope = operation["x-scope"];
  if (scope) parts.push(element("p", {}, "Needs a key with the scope ", element("code", {}, scope), "."));
  const rows = parameterRows(operation, fields);
  if (rows.length > 0) parts.push(element("h3", {}, "Parameters"), element("table", {}, rows));
  let body = null;
  const schema = operation.requestBody && bodySchema(operation.requestBody.content);
  if (schema) {
    const must = operation.requestBody.required ? "" : " (may be left out)";
    body = element("textarea", { "aria-label": "Body", spellcheck: false });
    body.value = JSON.stringify(sample(schema), null, 2);
    parts.push(element("h3", {}, `Body: ${typeName(schema)}${must}`), members(schema), body);
  }
  const output = element("pre", { "aria-live": "polite" });
  const button = element("button", { type: "button" }, "Try it");
  button.addEventListener("click", () => call(method, path, fields, body, output));
  parts.push(button, output, element("h3", {}, "Answers"),
    element("table", {}, responseRows(operation)));
  const good = Object.entries(operation.responses || {}).find(([status]) => status[0] === "2");
  const answer = good && bodySchema(good[1].content);
  if (answer) parts.push(element("h3", {}, `Body of ${good[0]}`), members(answer));
  place.append(...parts.flat(3));
}

function route(method, path, operation) {
  const place = element("div");
  const made = element("details", {},
    element("summary", {}, element("span", { class: `method ${method}` }, method.toUpperCase()),
      element("code", {}, path), element("span", { class: "summary" }, `  ${operation.summary || ""}`)),
    place);
  made.addEventListener("toggle", () => {
    if (made.open && place.childElementCount === 0) fill(place, method, path, operation);
  });
  made.dataset.text = `${method} ${path} ${operation.summary || ""}`.toLowerCase();
  return made;
}

function show(description) {
  schemas = (description.components || {}).schemas || {};
  document.getElementById("title").textContent =
    `${description.info.title} ${description.info.version}`;
  document.getElementById("description").textContent = description.info.description || "";
  const sections = new Map((description.tags || []).map((tag) => [tag.name, { tag, routes: [] }]));
  for (const [path, item] of Object.entries(description.paths)) {
    for (const method of METHODS.filter((method) => item[method])) {
      const name = (item[method].tags || ["other"])[0];
      if (!sections.has(name)) sections.set(name, { tag: { name }, routes: [] });
      sections.get(name).routes.push(route(method, path, item[method]));
    }
  }
  document.getElementById("routes").replaceChildren(...[...sections.values()].map((section) =>
    element("section", {}, element("h2", {}, section.tag.name),
      element("p", {}, section.tag.description || ""), section.routes)));
}

document.getElementById("search").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const made of document.querySelectorAll("details")) {
    made.hidden = !made.dataset.text.includes(wanted);
  }
});

fetch("/openapi.json").then((response) => response.json()).then(show).catch((error) => {
  document.getElementById("routes").textContent = `/openapi.json cannot be shown: ${error.message}`;
});
